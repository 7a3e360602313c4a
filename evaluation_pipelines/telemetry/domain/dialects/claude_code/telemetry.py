"""Log records and spans of Claude Code, including its desktop and SDK forms.

Records are named by their body, ``claude_code.<name>``; ``event.name`` is the bare name. Numbers
are strings up to 2.1.121 and numbers since; durations of tools are still strings. A refused call
has a ``tool_decision`` and no ``tool_result``. All MCP tools are named ``mcp_tool``; their real
name is in ``tool_parameters``. ``input_tokens`` excludes cached tokens.
"""

import re
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    dollars,
    flag,
    json_object,
    milliseconds,
    sequence,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row, names
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    APPROVAL,
    CALL,
    EXECUTION,
    TOOL,
    SpanSource,
    SpanView,
)
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

SHELLS = ("Bash", "PowerShell")
_REDACTED = ("<REDACTED>", "[REDACTED]")
EXIT_CODE = re.compile(r"\A\s*(?:Error:\s*)?(?:Command failed with )?[Ee]xit code:?\s+(\d{1,3})\b")

_USES = frozenset(
    {
        *("event_name", "source_event_name", "content"),
        *("cost_usd", "cost_source"),
        *("input_tokens", "cache_read_tokens", "cache_creation_tokens"),
        *("tool_name", "tool_type", "tool_class", "tool_parameters"),
        *("success", "success_source", "exit_code", "error"),
    }
)

_EVENT_NAMES = {
    "user_prompt": "user_prompt",
    "assistant_response": "assistant_response",
    "tool_result": "tool_result",
    "tool_decision": "tool_decision",
    "api_request": "api_request",
    "api_error": "api_error",
    "api_refusal": "api_refusal",
    "compaction": "compaction",
    "hook_registered": "hook",
    "hook_execution_start": "hook",
    "hook_execution_complete": "hook",
    "hook_plugin_metrics": "hook",
    "feedback_survey": "outcome",
}

TOOL_CLASSES = {
    **dict.fromkeys(("Read", "NotebookRead", "ReadMcpResourceTool"), "read"),
    **dict.fromkeys(("Grep", "Glob", "LS", "LSP", "ToolSearch"), "search"),
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit"), "edit"),
    "Write": "write",
    **dict.fromkeys(("Bash", "BashOutput", "KillShell", "KillBash", "PowerShell"), "shell"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "web"),
    **dict.fromkeys(("Task", "Agent", "TaskOutput", "TaskStop", "SendMessage"), "agent"),
}


def _unredacted(value: Any) -> str | None:
    """Return a logged text; None for the placeholder of texts that are not logged."""
    return None if value in _REDACTED else text(value)


_COLUMNS = {
    "event.sequence": ("sequence", sequence),
    "prompt.id": ("prompt_id", text),
    "request_id": ("request_id", text),
    "query_source": ("query_source", text),
    "agent.name": ("subagent", text),
    "agent_type": ("subagent", text),
    "skill.name": ("skill", text),
    "command_name": ("slash_command", text),
    "model": ("model", text),
    "duration_ms": ("duration_ms", milliseconds),
    "total_duration_ms": ("duration_ms", milliseconds),
    "ttft_ms": ("ttft_ms", milliseconds),
    "error": ("error", text),
    "error_type": ("error_type", text),
    "cost_usd": ("cost_usd", dollars),
    "input_tokens": ("input_tokens", tokens),
    "output_tokens": ("output_tokens", tokens),
    "cache_read_tokens": ("cache_read_tokens", tokens),
    "cache_creation_tokens": ("cache_creation_tokens", tokens),
    "prompt": ("content", _unredacted),
    "response": ("content", _unredacted),
    "body": ("content", _unredacted),
    "tool_name": ("tool_name", text),
    "tool_use_id": ("tool_use_id", text),
    "tool_input": ("tool_parameters", text),
    "success": ("success", flag),
    "decision": ("decision", text),
    "decision_type": ("decision", text),
}

_IDENTIFIED_BY = names("""
    event.sequence prompt.id message.id message.uuid request_id client_request_id query_source
    agent.name model effort duration_ms total_duration_ms ttft_ms error error_type status_code
    attempt total_attempts cost_usd input_tokens output_tokens cache_read_tokens
    cache_creation_tokens prompt prompt_length command_name response response_length body
    tool_name tool_use_id tool_input tool_parameters success decision decision_type source
    hook_event hook_name hook_matcher num_hooks trigger pre_tokens post_tokens
    skill.name plugin.name server_name mention_type from_mode to_mode error_name
""")


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "user_prompt":
            _refine_prompt(row, rest)
        case "api_request":
            _refine_request(row)
        case "tool_decision":
            _refine_tool(row, rest)
        case "feedback_survey":
            rest["response"] = row.pop("content", None)  # an answer of the user
        case _:
            _refine_result(row, _refine_tool(row, rest))
    return True


def _refine_prompt(row: Row, rest: dict[str, Any]) -> None:
    again = rest.pop("prompt_text", None)
    if row.get("content") is None and again not in _REDACTED:
        row["content"] = text(again)
    # /compact, /clear and the like are commands to the program, not prompts to the model.
    if rest.get("command_source") == "builtin":
        row["event_name"] = "other"


def _refine_request(row: Row) -> None:
    row["cost_source"] = "unknown" if row.get("cost_usd") is None else "reported"
    # The API omits these if no cache was involved; a broken value is present and null.
    if row.get("input_tokens") is not None:
        row.setdefault("cache_read_tokens", 0)
        row.setdefault("cache_creation_tokens", 0)


def _refine_result(row: Row, command: str | None) -> None:
    shown = EXIT_CODE.match(row.get("error") or "")
    settle_outcome(row, int(shown.group(1)) if shown else None, command)


def _refine_tool(row: Row, rest: dict[str, Any]) -> str | None:
    """Set name, type, class and parameters of a call; return the command of a shell call."""
    tool = row.get("tool_name") or ""
    # tool_input has the arguments, tool_parameters only a digest, and the commit of `git commit`.
    details = text(rest.pop("tool_parameters", None))
    arguments = row.get("tool_parameters")
    row["tool_parameters"] = arguments or details
    if (commit := json_object(details).get("git_commit_id")) is not None:
        rest["git_commit_id"] = commit
    row["tool_type"] = "builtin"
    row["tool_class"] = TOOL_CLASSES.get(tool, "other")
    if tool == "mcp_tool" or tool.startswith("mcp__"):
        row["tool_type"] = row["tool_class"] = "mcp"
        row["tool_name"] = _mcp_name(tool, json_object(details))
    if tool not in SHELLS:
        return None
    command = json_object(details).get("full_command") or json_object(arguments).get("command")
    command = command if isinstance(command, str) else None
    row["tool_class"] = shell_class(command)
    return command


def _mcp_name(tool: str, details: dict[str, Any]) -> str | None:
    server, name = details.get("mcp_server_name"), details.get("mcp_tool_name")
    if not server or not name:
        return tool
    # JSON inside JSON may contain characters that no file can: unpaired surrogates, NUL.
    return text(f"mcp__{server}__{name}".encode(errors="replace").decode())


CLAUDE_CODE = Dialect(
    source_cli="claude_code",
    name_prefix="claude_code.",
    scopes=("com.anthropic.claude_code",),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    refined=frozenset(
        {"user_prompt", "api_request", "tool_decision", "tool_result", "feedback_survey"}
    ),
    uses=_USES,
    identified_by=_IDENTIFIED_BY,
    never_sends=frozenset({"reasoning_tokens"}),
    ran_by={
        "effort": ("effort",),
        "speed": ("speed",),
        "cache_write_1h": ("cache_creation_1h_tokens",),
    },
)


def _tool_details(view: SpanView) -> dict[str, Any]:
    """Return parameters and result of a tool."""
    if view.attributes.get("span.type") != "tool":
        return {}
    names = {"full_command": "command", "file_path": "file_path", "subagent_type": "subagent_type"}
    sent = {names[name]: view.attributes[name] for name in names if name in view.attributes}
    output = view.event("tool.output")
    result = next((output[n] for n in ("output", "content", "result") if output.get(n)), None)
    return {"parameters": sent or None, "result": result}


def _execution(view: SpanView, _: bool | None) -> bool | None:  # noqa: FBT001 - three values
    """Return the outcome of an execution. The tool around it has none."""
    success = flag(view.attributes.get("success"))
    if isinstance(success, bool):
        return success
    return False if view.has_failed else None


CLAUDE_CODE_SPANS = SpanSource(
    source_cli="claude_code",
    scopes=("com.anthropic.claude_code*",),
    needs=("span.type",),
    kinds=("span.type",),
    roles={
        "interaction": AGENT,
        "llm_request": CALL,
        "tool": TOOL,
        "tool.execution": EXECUTION,
        "tool.blocked_on_user": APPROVAL,
    },
    columns={
        "model": ("model", text),
        "request_id": ("request_id", text),
        "query_source_safe": ("query_source", text),
        "input_tokens": ("input_tokens", tokens),
        "output_tokens": ("output_tokens", tokens),
        "cache_read_tokens": ("cache_read_tokens", tokens),
        "cache_creation_tokens": ("cache_creation_tokens", tokens),
        "ttft_ms": ("ttft_ms", milliseconds),
        "tool_name": ("tool_name", text),
        "tool_use_id": ("tool_use_id", text),
        "subagent_type": ("subagent", text),
        "gen_ai.provider.name": ("provider", text),
    },
    ran_by={"effort": ("effort",), "speed": ("speed",)},
    content=("user_prompt",),
    prompted=("user_prompt",),
    parameters=("parameters",),
    results=("result",),
    outcome=_execution,
    completes=_tool_details,
    failed=lambda view: view.has_failed or flag(view.attributes.get("success")) is False,
    includes_cached=False,
    tool_classes=TOOL_CLASSES,
)
