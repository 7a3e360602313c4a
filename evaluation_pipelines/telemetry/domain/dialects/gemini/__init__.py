"""Gemini CLI, and Qwen Code, a fork of it."""

from evaluation_pipelines.telemetry.domain.dialects.gemini.gemini_cli import (
    GEMINI_CLI,
    GEMINI_CLI_SPANS,
)
from evaluation_pipelines.telemetry.domain.dialects.gemini.qwen_code import QWEN_CODE
from evaluation_pipelines.telemetry.domain.dialects.gemini.transcript import (
    GeminiTranscript,
    QwenTranscript,
)
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    OF_EACH_USER,
    Receiver,
    SettingsFile,
    env_file,
    json_text,
    standard_variables,
)

_PROMPTS_SWITCH = '"logPrompts": true under telemetry of settings.json'


def _settings(receiver: Receiver, system: str, home: str) -> list[SettingsFile]:
    """Return the files of settings, of the system and of the home of a user."""
    telemetry = {
        "enabled": True,
        "target": "local",
        "otlpEndpoint": receiver.endpoint,
        "otlpProtocol": "http",
        "logPrompts": receiver.texts,
    }
    settings = SettingsFile(
        "settings.json", json_text({"telemetry": telemetry}), f"{system}, or {home}/settings.json"
    )
    env = standard_variables(receiver)
    return [settings, *([env_file(env, f"{home}/.env {OF_EACH_USER}")] if env else [])]


GEMINI = AgentProgram(
    title="Gemini CLI",
    versions="to 0.61",
    name="gemini-cli",
    logs=GEMINI_CLI,
    spans=GEMINI_CLI_SPANS,
    transcripts=GeminiTranscript,
    settings=lambda receiver: _settings(receiver, "/etc/gemini-cli/settings.json", "~/.gemini"),
    prompts_switch=_PROMPTS_SWITCH,
    set_by="`telemetry` in `~/.gemini/settings.json`",
    notes="prompts unless `logPrompts` is false. `outfile` is not OTLP",
    sends={
        "if logged": "user_prompt.content api_request.content",
        "yes": "tool_result.tool_parameters tool_result.error_type tool_result.duration_ms "
        "api_request.reasoning_tokens api_request.duration_ms api_error.error "
        "user_prompt.account_id",
        "rarely": "tool_result.exit_code",
        "(refusals)": "tool_decision.decision",
        "priced": "api_request.cost_usd",
        "(yes)": "api_request.subagent user_prompt.user_email",
    },
)

QWEN = AgentProgram(
    title="Qwen Code",
    versions="0.15 to 0.24",
    name="qwen-code",
    logs=QWEN_CODE,
    transcripts=QwenTranscript,
    settings=lambda receiver: _settings(receiver, "/etc/qwen-code/settings.json", "~/.qwen"),
    prompts_switch=_PROMPTS_SWITCH,
    set_by="the same in `~/.qwen/settings.json`",
    notes="like Gemini CLI",
    sends={
        "if logged": "user_prompt.content api_request.content",
        "yes": "tool_result.tool_parameters tool_result.error_type tool_result.duration_ms "
        "tool_result.tool_use_id api_request.reasoning_tokens api_request.duration_ms "
        "api_request.ttft_ms api_error.error api_request.subagent session_end.session_id",
        "rarely": "tool_result.exit_code",
        "(refusals)": "tool_decision.decision",
        "(priced)": "api_request.cost_usd",
        "(yes)": "user_prompt.account_id",
    },
)
