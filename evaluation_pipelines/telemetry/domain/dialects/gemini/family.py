"""Rules that the dialects of Gemini CLI and its fork Qwen Code share.

Records are named by ``event.name``; the body is an English sentence. Input tokens include cached
ones, and no cost is sent. A tool call is one record that includes its permission.
"""

import re
from collections.abc import Callable
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    Convert,
    count,
    flag,
    json_object,
    milliseconds,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    Row,
    leave_out_cached,
    names,
)
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

# A slash command has a separate record and is no prompt. `api_request` only marks the start of a
# call; `api_response` or `api_error` has its result.
EVENT_NAMES = {
    "user_prompt": "user_prompt",
    "api_response": "api_request",
    "api_error": "api_error",
    "tool_call": "tool_result",
    "chat_compression": "compaction",
    "hook_call": "hook",
}

COLUMNS: dict[str, tuple[str, Convert]] = {
    "installation.id": ("account_id", text),
    "prompt_id": ("prompt_id", text),
    "model": ("model", text),
    "duration_ms": ("duration_ms", milliseconds),
    "error": ("error", text),
    "error_message": ("error", text),
    "error.message": ("error", text),
    "error_type": ("error_type", text),
    "error.type": ("error_type", text),
    "input_token_count": ("input_tokens", tokens),
    "output_token_count": ("output_tokens", tokens),
    "cached_content_token_count": ("cache_read_tokens", tokens),
    "thoughts_token_count": ("reasoning_tokens", tokens),
    "prompt": ("content", text),
    "request_text": ("content", text),
    "response_text": ("content", text),
    "function_name": ("tool_name", text),
    "function_args": ("tool_parameters", text),
    "success": ("success", flag),
    "decision": ("decision", text),
}

IDENTIFIED_BY = names("""
    prompt_id model role agent_name duration duration_ms status_code error error_message
    error.message error_type error.type input_token_count output_token_count
    cached_content_token_count thoughts_token_count tool_token_count prompt prompt_length
    request_text response_text function_name function_args success decision tool_type
    mcp_server_name content_length start_time end_time metadata
    call_id response_id ttft_ms subagent_name
    hook_event_name hook_name tokens_before tokens_after operation decision_model
""")

_SHELL = "run_shell_command"
EXIT_CODE = re.compile(r"^Exit Code: ([0-9]{1,10}|\(none\))$", re.MULTILINE)

TOOL_CLASSES = {
    _SHELL: "shell",
    **dict.fromkeys(("read_file", "read_many_files", "get_internal_docs"), "read"),
    **dict.fromkeys(("grep_search", "search_file_content", "glob"), "search"),
    **dict.fromkeys(("list_directory", "lsp", "tool_search"), "search"),
    **dict.fromkeys(("replace", "edit", "notebook_edit"), "edit"),
    "write_file": "write",
    **dict.fromkeys(("web_fetch", "google_web_search", "web_search"), "web"),
    **dict.fromkeys(("agent", "task", "task_output", "task_stop", "send_message"), "agent"),
    **dict.fromkeys(("delegate_to_agent", "codebase_investigator", "cli_help"), "agent"),
}

_DECISIONS = ("accept", "auto_accept", "modify", "reject")

WasRefused = Callable[[Row, dict[str, Any]], bool]
"""Tells whether a call that was not reported as a success was refused before it ran."""


def refine_request(row: Row, rest: dict[str, Any]) -> None:
    """Convert the tokens of an answered API call to the columns."""
    leave_out_cached(row)
    # Input from a tool of the API itself (a web search) is counted separately.
    by_tools = tokens(rest.get("tool_token_count"))
    if row["input_tokens"] is not None and isinstance(by_tools, int):
        row["input_tokens"] += by_tools


def refine_call(row: Row, rest: dict[str, Any], was_refused: WasRefused) -> None:
    """Set name, type, class, outcome and permission of a tool call."""
    # Before an exit code decides: only what was not reported as a success can be a refusal.
    refused = row.get("success") is not True and was_refused(row, rest)
    tool = row.get("tool_name")
    row["tool_type"] = "builtin"
    if rest.pop("tool_type", None) == "mcp":
        row["tool_type"] = row["tool_class"] = "mcp"
        row["tool_name"] = _mcp_name(tool, text(rest.get("mcp_server_name")))
        settle_outcome(row, None, None)
    elif tool == _SHELL:
        command = json_object(row.get("tool_parameters")).get("command")
        command = command if isinstance(command, str) else None
        row["tool_class"] = shell_class(command)
        settle_outcome(row, _exit_code(row, rest), command)
    else:
        row["tool_class"] = TOOL_CLASSES.get(tool or "", "other")
        settle_outcome(row, None, None)
    _refine_decision(row, rest, refused=refused)


def _mcp_name(tool: str | None, server: str | None) -> str | None:
    """Return one spelling for ``add``, ``calc__add`` and ``mcp_calc_add`` of different versions."""
    if not tool or not server:
        return tool
    for prefix in (f"mcp__{server}__", f"mcp_{server}_", f"{server}__"):
        if tool.startswith(prefix):
            return f"mcp__{server}__{tool.removeprefix(prefix)}"
    return f"mcp__{server}__{tool}"


def _exit_code(row: Row, rest: dict[str, Any]) -> int | None:
    """Return the exit code from the metadata (Gemini) or the end of the error (Qwen)."""
    metadata = rest.get("metadata")
    if isinstance(metadata, str):
        metadata = json_object(metadata)
    code = count(metadata.get("exitCode")) if isinstance(metadata, dict) else None
    if isinstance(code, int):
        return code
    # The last one: the output of the command is above it.
    shown = EXIT_CODE.findall(row.get("error") or "")
    return int(shown[-1]) if shown and shown[-1] != "(none)" else None


def _refine_decision(row: Row, rest: dict[str, Any], *, refused: bool) -> None:
    sent = row.get("decision")
    # "Yes, and save that for the future" is sent as a refusal, but the call did run.
    decision = "accept" if sent in _DECISIONS else None
    if refused:
        decision = "reject"
        row["event_name"] = "tool_decision"
        row["success"] = row["success_source"] = None
    row["decision"] = decision
    if sent is not None and sent != decision:
        rest["decision"] = sent


def ended_before_it_ran(row: Row, rest: dict[str, Any]) -> bool:
    """Return True if it was not allowed and no error tells that it ran.

    The call was canceled while it waited for an answer, or together with a refused one. The
    programs always send ``tool_type``; a record without it may as well lack the error.
    """
    is_silent = all(row.get(name) is None for name in ("decision", "error", "error_type"))
    return row.get("success") is False and is_silent and "tool_type" in rest
