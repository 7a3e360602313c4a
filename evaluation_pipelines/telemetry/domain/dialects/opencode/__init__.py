"""OpenCode.

Its sessions are in a database: ``telemetry/opencode_store.py`` reads it, as no domain opens files.
"""

from evaluation_pipelines.telemetry.domain.dialects.opencode.telemetry import OPENCODE
from evaluation_pipelines.telemetry.domain.dialects.opencode.transcript import OpenCodeTranscript
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    env_file,
    given,
    json_text,
)


def _settings(receiver: Receiver) -> list[SettingsFile]:
    plugin = {
        "$schema": "https://opencode.ai/config.json",
        "plugin": ["@devtheops/opencode-plugin-otel"],
    }
    env = {
        "OPENCODE_ENABLE_TELEMETRY": "1",
        "OPENCODE_OTLP_PROTOCOL": "http/json",
        "OPENCODE_OTLP_ENDPOINT": receiver.endpoint,
        "OPENCODE_OTLP_HEADERS": receiver.headers,
        "OPENCODE_RESOURCE_ATTRIBUTES": receiver.resource,
    }
    return [
        SettingsFile("opencode.json", json_text(plugin), "~/.config/opencode/opencode.json"),
        env_file(given(env), "the environment of each user, by profile or device management"),
    ]


PROGRAM = AgentProgram(
    title="OpenCode",
    name="opencode",
    logs=OPENCODE,
    transcripts=OpenCodeTranscript,
    settings=_settings,
    set_by="a plugin: `opencode-plugin-otel` or `opencode-otel`",
    notes="OpenCode's own logs are for its developers and not stored",
    sends={
        "(if logged)": "user_prompt.content tool_result.tool_parameters",
        "(yes)": "tool_result.duration_ms tool_decision.decision api_request.reasoning_tokens "
        "api_request.cost_usd api_request.duration_ms api_error.error "
        "api_request.subagent",
    },
)
