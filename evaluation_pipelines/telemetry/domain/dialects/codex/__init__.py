"""Codex CLI."""

from evaluation_pipelines.telemetry.domain.dialects.codex.telemetry import CODEX, CODEX_SPANS
from evaluation_pipelines.telemetry.domain.dialects.codex.transcript import CodexTranscript
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    OF_EACH_USER,
    Receiver,
    SettingsFile,
    env_file,
    given,
    toml_text,
)


def _settings(receiver: Receiver) -> list[SettingsFile]:
    lines = [
        "[otel]",
        f"log_user_prompt = {str(receiver.texts).lower()}",
        f"log_agent_responses = {str(receiver.texts).lower()}",
        "",
        '[otel.exporter."otlp-http"]',
        f"endpoint = {toml_text(f'{receiver.endpoint}/v1/logs')}",
        'protocol = "json"',
    ]
    if receiver.key is not None:
        lines += ["", '[otel.exporter."otlp-http".headers]']
        lines += [f"Authorization = {toml_text(f'Bearer {receiver.key}')}"]
    where = "/etc/codex/config.toml, or ~/.codex/config.toml of each user; not of a project"
    settings = SettingsFile("config.toml", "\n".join(lines) + "\n", where)
    env = given({"OTEL_RESOURCE_ATTRIBUTES": receiver.resource})
    return [settings, *([env_file(env, f"~/.codex/.env {OF_EACH_USER}")] if env else [])]


PROGRAM = AgentProgram(
    title="Codex CLI",
    versions="0.58 to 0.169",
    name="codex",
    logs=CODEX,
    spans=CODEX_SPANS,
    transcripts=CodexTranscript,
    settings=_settings,
    prompts_switch="log_user_prompt = true under [otel] of config.toml",
    set_by="`[otel]` in `~/.codex/config.toml`",
    notes="prompts only with `log_user_prompt`, final replies with `log_agent_responses`. "
    "Parameters and outputs of tool calls are always sent",
    sends={
        "if logged": "user_prompt.content",
        "(if logged)": "assistant_response.content",
        "yes": "tool_result.tool_parameters tool_result.content tool_result.exit_code "
        "tool_result.duration_ms tool_result.tool_use_id tool_decision.decision "
        "api_request.reasoning_tokens api_request.ttft_ms",
        "priced": "api_request.cost_usd",
        "(yes)": "api_request.subagent user_prompt.user_email",
    },
)
