"""GitHub Copilot: the chat of VS Code, which logs, and the program, which sends spans."""

from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    EVALUATED_SPAN,
    EVALUATED_TRACE,
    EVALUATION,
    Row,
)
from evaluation_pipelines.telemetry.domain.dialects.genai import CONVENTIONS, GENAI
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome

# `agent.turn` sums up calls that are logged one by one.
_EVENT_NAMES = {
    "session.start": "session_start",
    "summarization": "compaction",
    "tool.call": "tool_result",
    # What the user did with the edits and answers.
    **dict.fromkeys(("edit.feedback", "edit.hunk.action", "edit.survival"), "outcome"),
    **dict.fromkeys(("inline.done", "user.feedback"), "outcome"),
}

_NAMED_SESSION = "named_session"
"""Where an event of Copilot Chat has its own ``session.id``, apart from that of the resource."""

# By the name that the model sees, and by the one (after "copilot_") in VS Code.
_TOOL_CLASSES = {
    **dict.fromkeys(("read_file", "readFile", "list_dir", "listDirectory"), "read"),
    **dict.fromkeys(("get_errors", "getErrors", "get_changed_files", "getChangedFiles"), "read"),
    **dict.fromkeys(("grep_search", "findTextInFiles", "file_search", "findFiles"), "search"),
    **dict.fromkeys(("semantic_search", "searchCodebase"), "search"),
    **dict.fromkeys(("list_code_usages", "listCodeUsages"), "search"),
    **dict.fromkeys(("apply_patch", "applyPatch"), "edit"),
    **dict.fromkeys(("insert_edit_into_file", "insertEdit"), "edit"),
    **dict.fromkeys(("edit_notebook_file", "editNotebook"), "edit"),
    **dict.fromkeys(("replace_string_in_file", "replaceString"), "edit"),
    **dict.fromkeys(("multi_replace_string_in_file", "multiReplaceString"), "edit"),
    **dict.fromkeys(("create_file", "createFile"), "write"),
    **dict.fromkeys(("create_directory", "createDirectory"), "write"),
    **dict.fromkeys(("run_in_terminal", "get_terminal_output"), "shell"),
    **dict.fromkeys(("fetch_webpage", "fetchWebPage", "github_repo", "githubRepo"), "web"),
    "runSubagent": "agent",
}


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    """Complete an event of Copilot Chat, whose scope also has events of the conventions.

    Its sessions are the windows of VS Code, named by the resource, until spans name the chat: newer
    versions send the trace of a record. The start of a chat names it, and nothing else does.
    """
    named, trace = row.pop(_NAMED_SESSION, None), None
    if EVALUATION not in rest:
        trace, _ = rest.pop(EVALUATED_TRACE, None), rest.pop(EVALUATED_SPAN, None)
    if row["source_event_name"] == "session.start":
        rest |= {"session.id": named} if named else {}
        return True
    row["session_id"] = named or row.get("session_id")
    if trace is not None:
        row["subagent_session_id"] = f"trace:{trace}"
    name = row["source_event_name"] or ""
    if name.startswith(GENAI.name_prefix):
        row["source_event_name"] = name.removeprefix(GENAI.name_prefix)
        row["event_name"] = GENAI.event_names.get(row["source_event_name"], "other")
    if row["event_name"] == "api_request" and "cache_read_tokens" not in row:
        row["cache_read_tokens"] = None  # not sent, however many they are
        row.setdefault("cache_creation_tokens")
    if row["source_event_name"] == "tool.call":
        _refine_call(row)
    return GENAI.refine(row, rest)


def _refine_call(row: Row) -> None:
    tool = row.get("tool_name") or ""
    is_mcp = tool.startswith("mcp_")
    row["tool_type"] = "mcp" if is_mcp else "builtin"
    tool_class = _TOOL_CLASSES.get(tool.removeprefix("copilot_"), "other")
    row["tool_class"] = "mcp" if is_mcp else tool_class
    settle_outcome(row, None, None)


COPILOT_CHAT = replace(
    GENAI,
    name_prefix="copilot_chat.",
    scopes=("copilot-chat",),
    event_names=_EVENT_NAMES,
    # Read by `_refine`.
    columns={**GENAI.columns, "session.id": (_NAMED_SESSION, text)},
    refine=_refine,
    told_by=None,  # it logs each call
    follows_traces=True,
    never_sends=GENAI.never_sends
    | {"cache_read_tokens", "cache_creation_tokens", "cost_usd", "api_ms", "mean_api_ms"},
)

COPILOT_CLI = replace(
    CONVENTIONS,
    scopes=("github.copilot",),
    prompted=("@github.copilot.user.message", *CONVENTIONS.prompted),
    libraries={
        "copilot-cli": Library(
            title="GitHub Copilot CLI",
            language="none",
            scopes=("github.copilot",),
            texts_on={"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
            session="its own session, also when it is resumed",
            has_session=True,
            unknown="nothing seen",
        )
    },
)
