"""GitHub Copilot: the chat of VS Code, which logs, and the program, which sends spans."""

from evaluation_pipelines.telemetry.domain.dialects.copilot.telemetry import (
    COPILOT_CHAT,
    COPILOT_CLI,
)
from evaluation_pipelines.telemetry.domain.dialects.copilot.transcript import CopilotTranscript
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    env_file,
    standard_variables,
)


def _settings(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "COPILOT_OTEL_ENABLED": "true",
        "COPILOT_OTEL_PROTOCOL": "http",
        "COPILOT_OTEL_ENDPOINT": receiver.endpoint,
        "COPILOT_OTEL_CAPTURE_CONTENT": str(receiver.texts).lower(),
    }
    where = "the environment in which VS Code starts"
    return [env_file({**env, **standard_variables(receiver)}, where)]


CHAT = AgentProgram(
    title="Copilot Chat in VS Code",
    name="copilot",
    logs=COPILOT_CHAT,
    settings=_settings,
    set_by="`COPILOT_OTEL_*`",
    notes="not tested with real telemetry. Recognized by service name: do not change "
    "`OTEL_SERVICE_NAME`",
)

CLI = AgentProgram(
    title="GitHub Copilot CLI",
    spans=COPILOT_CLI,
    transcripts=CopilotTranscript,
)
