"""Log records of Codex CLI, and which of its calls were refused."""

import re
import shlex
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    count,
    flag,
    json_object,
    json_text,
    milliseconds,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    Dialect,
    Row,
    leave_out_cached,
    names,
)
from evaluation_pipelines.telemetry.domain.dialects.span_source import SpanSource
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

_BY_RULE = (
    r"approval policy is [^\n]{1,500}?; reject command"
    r"|approval required by policy(?: rule)?, but AskForApproval"
    r"|execpolicy forbids this command\Z"
    r"|`.*?` rejected: "
    r"|This action was rejected due to unacceptable risk\."
    r"|The automatic permission approval review did not finish"
    r"|automatic approval reviewer denied the action"
    r"|automatic approval review (?:failed|could not prepare|is not supported)"
    r"|approval request timed out\Z"
    r"|Guardian denied this request\."
)
_OF_COMMAND = re.compile(
    r"(?:(?:exec command|patch) rejected by user\Z"
    r"|patch rejected: writing .{1,200}; rejected by user approval settings\Z"
    rf"|{_BY_RULE})",
    re.DOTALL,
)
# With the command between backticks since March 2026; it may have lines and backticks of its own.
_WRAPPED = re.compile(
    r"\w+ failed(?: for `.*`)?: CreateProcess \{ message: "
    r'"Rejected\(\\"(?P<reason>(?:[^"\\]|\\.)*)\\"\)" \}\s*\Z',
    re.DOTALL,
)
_NOT_STARTED = re.compile(
    r"Failed to create unified exec process|Unified exec process failed|missing command line"
    r"|command args are empty|\w+ is unavailable in this session|unified_exec zsh-fork|zsh fork"
    r"|Network access "
)
_OF_MCP = re.compile(
    r'(?:Err\("|(?:Wall time: [\d.]+ seconds\nOutput:\n)?\[\{(?:"type":"text",)?"text":")?'
    r"(?:user (?:rejected|cancelled) MCP tool call|MCP tool call blocked by app configuration"
    r"|This action was rejected due to unacceptable risk\."
    r"|The automatic permission approval review did not finish)"
)


def command_was_refused(output: str) -> bool:
    """Return True if this is the output of a refused command or patch."""
    wrapped = _WRAPPED.match(output)
    if wrapped is not None:
        return _NOT_STARTED.match(wrapped["reason"]) is None
    return _OF_COMMAND.match(output) is not None


def mcp_call_was_refused(output: str) -> bool:
    """Return True if this is the output of a refused call of an MCP tool."""
    return _OF_MCP.match(output) is not None


_MAIN_AGENT = "/root"
_SHELLS = ("exec_command", "shell_command", "shell", "local_shell", "container.exec")
_SHOW_EXIT_CODES = (*_SHELLS, "write_stdin", "apply_patch")
_EXIT_CODE = re.compile(
    r"(?:(?:Chunk ID|Wall time): .*\n)*(?:Process exited with code|Exit code:) (-?\d{1,9})\n"
)
_SHELL_PREFIX = re.compile(r"\A\S*sh -l?c ")
_NAMES_TOOLS = re.compile("tools|globalThis", re.IGNORECASE)
"""The only ways of a program to a tool: ``tools``, ``ALL_TOOLS``, the older module ``tools.js``."""

_PATCHES = re.compile(r"\s*(?:cd \S+ && )?apply_patch\b")

_EVENT_NAMES = {
    "user_prompt": "user_prompt",
    "agent_response": "assistant_response",
    "tool_decision": "tool_decision",
    "tool_result": "tool_result",
}

_TOOL_CLASSES = {
    **dict.fromkeys((*_SHELLS, "write_stdin"), "shell"),
    "apply_patch": "edit",
    **dict.fromkeys(("read_file", "list_dir", "view_image", "read_mcp_resource"), "read"),
    **dict.fromkeys(("grep_files", "tool_search"), "search"),
    **dict.fromkeys(("web_search", "web_fetch"), "web"),
    **dict.fromkeys(("spawn_agent", "spawn_agents_on_csv", "send_input", "send_message"), "agent"),
    **dict.fromkeys(("followup_task", "interrupt_agent", "resume_agent", "close_agent"), "agent"),
    **dict.fromkeys(("wait_agent", "wait", "list_agents"), "agent"),
}

_COLUMNS = {
    "skill.name": ("skill", text),
    "model": ("model", text),
    "duration_ms": ("duration_ms", milliseconds),
    "ttft_ms": ("ttft_ms", milliseconds),
    "error.message": ("error", text),
    "input_token_count": ("input_tokens", tokens),
    "output_token_count": ("output_tokens", tokens),
    "cached_token_count": ("cache_read_tokens", tokens),
    "cache_write_token_count": ("cache_creation_tokens", tokens),
    "reasoning_token_count": ("reasoning_tokens", tokens),
    "prompt": ("content", text),
    "response": ("content", text),
    "output": ("content", text),
    "tool_name": ("tool_name", text),
    "call_id": ("tool_use_id", text),
    "success": ("success", flag),
}

_IDENTIFIED_BY = names("""
    model duration_ms ttft_ms error.message attempt endpoint http.response.status_code event.kind
    input_token_count output_token_count cached_token_count cache_write_token_count
    reasoning_token_count tool_token_count prompt prompt_length response arguments output
    tool_name tool_namespace call_id success decision source mcp_server agent_name
    startup.phase startup.status outcome
""")


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "user_prompt":
            if row.get("content") == "[REDACTED]":
                row["content"] = None
        case "sse_event":
            _refine_stream_event(row, rest)
        case "api_request":
            _refine_try(row, rest)
        case "tool_decision":
            _refine_tool(row, rest)
            row["decision"] = _decision(rest.get("decision"))
        case "tool_result":
            _refine_result(row, rest)
    return True


def _refine_stream_event(row: Row, rest: dict[str, Any]) -> None:
    has_counts = "input_tokens" in row or "output_tokens" in row
    if not has_counts or rest.get("event.kind") != "response.completed":
        return
    row["event_name"] = "api_request"
    leave_out_cached(row)


def _refine_try(row: Row, rest: dict[str, Any]) -> None:
    """Set ``success`` of a try that reached the model; listing the available models is none."""
    status, error = count(rest.get("http.response.status_code")), row.get("error")
    if rest.get("endpoint") != "/models" and (status, error) != (None, None):
        row["success"] = error is None and status in range(200, 300)


def _decision(sent: Any) -> str | None:
    """Map to accept or reject; an unknown value is neither, and stays in the attributes."""
    word = text(sent) or ""
    if word.startswith("approved"):
        return "accept"
    return "reject" if word.startswith(("denied", "abort", "timedout", "timed_out")) else None


def _refine_result(row: Row, rest: dict[str, Any]) -> None:
    command = _refine_tool(row, rest)
    output = row.get("content") or ""
    shows_exit_code = row["tool_name"] in _SHOW_EXIT_CODES
    settle_outcome(row, _exit_code(output) if shows_exit_code else None, command)
    if row.get("success") is False and (
        (shows_exit_code and command_was_refused(output))
        or (row["tool_type"] == "mcp" and mcp_call_was_refused(output))
    ):
        row["event_name"], row["decision"] = "tool_decision", "reject"
        row["success"] = row["success_source"] = None


def _refine_tool(row: Row, rest: dict[str, Any]) -> str | None:
    """Set name, type, class and parameters of a call; return the command of a shell call."""
    arguments = text(rest.pop("arguments", None))
    given = json_object(arguments)
    # apply_patch and exec take bare text.
    is_bare = arguments is not None and not arguments.lstrip().startswith("{")
    row["tool_parameters"] = json_text({"input": arguments}) if is_bare else arguments
    agent = text(rest.pop("agent_name", None)) or _MAIN_AGENT
    row["subagent"] = None if agent == _MAIN_AGENT else agent.removeprefix(f"{_MAIN_AGENT}/")
    tool = row.setdefault("tool_name", None)
    mcp_name = _mcp_name(tool or "", rest)
    if mcp_name is not None:
        row["tool_name"] = mcp_name
        row["tool_type"] = row["tool_class"] = "mcp"
        return None
    row["tool_type"] = "builtin"
    row["tool_class"] = _TOOL_CLASSES.get(tool or "", "other")
    if _wraps_calls(tool, arguments, given):
        row["event_name"] = "other"
    if tool not in _SHELLS:
        return None
    command = _command(given, arguments if is_bare else None)
    row["tool_class"] = "edit" if _PATCHES.match(command or "") else shell_class(command)
    return command


def _wraps_calls(tool: str | None, arguments: str | None, given: dict[str, Any]) -> bool:
    """Return True for a call of code mode whose program may make calls, which are logged as well.

    Whether a program that names a tool came to call one is told by other records alone: it never
    counts, lest its calls count twice.
    """
    if tool == "exec":
        return arguments is None or _NAMES_TOOLS.search(arguments) is not None
    return tool == "wait" and "cell_id" in given


def _mcp_name(tool: str, rest: dict[str, Any]) -> str | None:
    """Return ``mcp__server__tool`` from whichever attributes this version sends."""
    namespace, server = text(rest.get("tool_namespace")) or "", text(rest.get("mcp_server"))
    if tool.startswith("mcp__"):
        return tool
    if namespace.startswith("mcp__"):
        return f"{namespace.rstrip('_')}__{tool}"
    return f"mcp__{server}__{tool}" if server else None


def _command(given: dict[str, Any], bare: str | None) -> str | None:
    """Return the command line, sent as text, as an argument list, or bare (local_shell)."""
    command = given.get("cmd") or given.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        runs_script = len(command) == 3 and command[1] in ("-c", "-lc")
        return str(command[2]) if runs_script else shlex.join(command)
    if isinstance(command, str):
        return command
    return None if bare is None else _SHELL_PREFIX.sub("", bare)


def _exit_code(output: str) -> int | None:
    """Return the exit code that Codex puts before (or, in JSON, next to) the output."""
    shown = _EXIT_CODE.match(output)
    if shown is not None:
        return int(shown.group(1))
    metadata = json_object(output).get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 10**9
    return code if is_code else None


CODEX = Dialect(
    source_cli="codex",
    name_prefix="codex.",
    scopes=("codex_otel",),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    ran_by={
        "effort": ("model_reasoning_effort", "reasoning_effort"),
        "service_tier": ("service_tier",),
    },
    sends_cost=False,
    sends_time=False,
    identified_by=_IDENTIFIED_BY,
    never_sends=frozenset({"missing_events", "api_ms", "mean_api_ms"}),
    has_warm_ups=True,
)
CODEX_SPANS = SpanSource(scopes=("codex*",), kinds=(), roles={}, columns={}, is_read=False)
