"""Claude Code."""

from shlex import quote

from evaluation_pipelines.telemetry.domain.dialects.claude_code.telemetry import (
    CLAUDE_CODE,
    CLAUDE_CODE_SPANS,
)
from evaluation_pipelines.telemetry.domain.dialects.claude_code.transcript import (
    ClaudeCodeTranscript,
)
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    given,
    json_text,
)


def _settings(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
        "OTEL_LOG_USER_PROMPTS": "1" if receiver.texts else None,
        "OTEL_LOG_TOOL_DETAILS": "1" if receiver.texts else None,
        "OTEL_RESOURCE_ATTRIBUTES": receiver.resource,
    }
    where = (
        "Linux: /etc/claude-code/managed-settings.json, macOS: /Library/Application "
        "Support/ClaudeCode/managed-settings.json. Users cannot change what it sets"
    )
    return [SettingsFile("managed-settings.json", json_text({"env": given(env)}), where)]


_SEND_TRANSCRIPT = """
import glob, gzip, json, sys, urllib.request
path = json.load(sys.stdin)["transcript_path"]
for file in [path, *glob.glob(path[:-6] + "/subagents/*.jsonl")]:
    body = gzip.compress(open(file, "rb").read())
    urllib.request.urlopen(urllib.request.Request({url}, body, {headers}), timeout=20)
"""


def _transcript_hook(receiver: Receiver) -> SettingsFile:
    """Return the hook of Claude Code that sends transcripts of a session when it ends.

    Those of its sub-agents, too.
    """
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    if receiver.key is not None:
        headers["Authorization"] = f"Bearer {receiver.key}"
    url = f"{receiver.endpoint}/v1/transcripts"
    program = _SEND_TRANSCRIPT.strip().format(url=repr(url), headers=headers)
    hook = {"type": "command", "command": f"python3 -c {quote(program)}"}
    text = json_text({"hooks": {"SessionEnd": [{"hooks": [hook]}]}})
    return SettingsFile("settings.json", text, "~/.claude/ of each user, who needs python3")


def _slash_command(landing: str | None) -> SettingsFile:
    """Return the command ``/performance`` of Claude Code, which scores sessions.

    Args:
        landing: Folder of telemetry as a word of a shell; ``None`` if users have to name a file.
    """
    files, hint = (f"{landing} ", "") if landing else ("", "FILE ")
    text = f"""---
description: Score how well the agent worked in the latest session with a masque
argument-hint: "{hint}[--session KEY | --all]"
allowed-tools: Bash(evaluation-pipelines score:*)
---

!`evaluation-pipelines score {files}$ARGUMENTS`

Show this output as it is. Then name the lowest dimension and what would raise it, in two sentences.
"""
    where = ".claude/commands/ of a project or of each user. evaluation-pipelines has to be on PATH"
    return SettingsFile("performance.md", text, where)


PROGRAM = AgentProgram(
    title="Claude Code",
    versions="2.0 to 2.1",
    name="claude-code",
    logs=CLAUDE_CODE,
    spans=CLAUDE_CODE_SPANS,
    transcripts=ClaudeCodeTranscript,
    settings=_settings,
    prompts_switch="OTEL_LOG_USER_PROMPTS=1",
    parameters_switch="OTEL_LOG_TOOL_DETAILS=1",
    transcript_hook=_transcript_hook,
    slash_command=_slash_command,
    set_by="above",
    sends={
        "if logged": "user_prompt.content assistant_response.content tool_result.tool_parameters",
        "(if logged)": "tool_result.exit_code",
        "yes": "tool_result.error_type tool_result.duration_ms tool_result.tool_use_id "
        "tool_decision.decision api_request.cost_usd api_request.duration_ms "
        "api_request.ttft_ms api_request.request_id api_error.error user_prompt.sequence "
        "user_prompt.account_id",
        "(yes)": "api_request.subagent user_prompt.user_email",
    },
)
