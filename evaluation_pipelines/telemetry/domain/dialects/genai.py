"""Events of the OpenTelemetry GenAI conventions, from programs without a dialect.

Today each call to a model is one ``gen_ai.client.inference.operation.details``. Conventions up to
1.36 had an event for each message (``gen_ai.user.message`` ...) with its text in the body, and
repeated the whole conversation with each call; tokens were on spans only. VS Code Copilot Chat
adds ``copilot_chat.<name>``. Input tokens include cached ones, and no cost is sent.

Programs with another dialect also send such events, so this dialect is tried last.
"""

from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import flag, milliseconds, text, tokens
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row, leave_out_cached
from evaluation_pipelines.telemetry.domain.event_ids import content_id
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome

_EVENT_NAMES = {
    "client.inference.operation.details": "api_request",
    "user.message": "user_prompt",
    "choice": "assistant_response",
    "tool.message": "tool_result",
}

# `agent.turn` sums up calls that are logged one by one.
_COPILOT_EVENT_NAMES = {
    "session.start": "session_start",
    "summarization": "compaction",
    "tool.call": "tool_result",
}

# Operations that contain calls to a model and repeat their tokens, or make none.
_NO_CALLS = ("invoke_agent", "invoke_workflow", "create_agent", "execute_tool")

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

# All spellings that conventions and programs have used.
_COLUMNS = {
    "gen_ai.agent.id": ("agent_id", text),
    "enduser.pseudo.id": ("account_id", text),
    "gen_ai.response.model": ("model", text),
    "gen_ai.request.model": ("model", text),
    "gen_ai.provider.name": ("provider", text),
    "gen_ai.system": ("provider", text),
    "gen_ai.response.id": ("request_id", text),
    "gen_ai.usage.input_tokens": ("input_tokens", tokens),
    "gen_ai.usage.prompt_tokens": ("input_tokens", tokens),
    "gen_ai.usage.output_tokens": ("output_tokens", tokens),
    "gen_ai.usage.completion_tokens": ("output_tokens", tokens),
    "gen_ai.usage.cache_read.input_tokens": ("cache_read_tokens", tokens),
    "gen_ai.usage.cache_creation.input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.reasoning.output_tokens": ("reasoning_tokens", tokens),
    "gen_ai.usage.reasoning_tokens": ("reasoning_tokens", tokens),
    "gen_ai.output.messages": ("content", text),
    "gen_ai.tool.name": ("tool_name", text),
    "gen_ai.tool.call.id": ("tool_use_id", text),
    "gen_ai.tool.call_id": ("tool_use_id", text),
    "duration_ms": ("duration_ms", milliseconds),
    "success": ("success", flag),
    "error.type": ("error_type", text),
    "error.message": ("error", text),
}


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "client.inference.operation.details":
            _refine_inference(row, rest)
        case "user.message" | "tool.message":
            _refine_message(row, rest)
        case "choice":
            row["content"] = _content(_body(rest).get("message"))
        case "assistant.message":
            # A choice that was sent back to the model as part of the conversation.
            return False
        case "tool.call":
            _refine_call(row)
    return True


def _refine_inference(row: Row, rest: dict[str, Any]) -> None:
    if rest.get("gen_ai.operation.name") in _NO_CALLS:
        row["event_name"] = "other"
    elif row.get("error_type") is not None:
        row["event_name"] = "api_error"
    else:
        leave_out_cached(row)


def _refine_message(row: Row, rest: dict[str, Any]) -> None:
    """Exclude the time from a message: sent again with a later call, it is the same event."""
    body = _body(rest)
    message = (row.get("organization_id"), row.get("session_id"), row["source_event_name"], body)
    row["event_id"] = content_id(*message)
    row["content"] = _content(rest.pop("body", None))
    row["tool_use_id"] = text(body.get("id"))


def _refine_call(row: Row) -> None:
    tool = row.get("tool_name") or ""
    is_mcp = tool.startswith("mcp_")
    row["tool_type"] = "mcp" if is_mcp else "builtin"
    tool_class = _TOOL_CLASSES.get(tool.removeprefix("copilot_"), "other")
    row["tool_class"] = "mcp" if is_mcp else tool_class
    settle_outcome(row, None, None)


def _body(rest: dict[str, Any]) -> dict[str, Any]:
    body = rest.get("body")
    return body if isinstance(body, dict) else {}


def _content(message: Any) -> str | None:
    return text(message.get("content")) if isinstance(message, dict) else None


GENAI = Dialect(
    source_cli="genai",
    name_prefix="gen_ai.",
    scopes=(),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    # What answered counts before what was asked for.
    ran_by={
        "effort": ("gen_ai.request.reasoning.level", "gen_ai.request.reasoning_effort"),
        "service_tier": (
            *("gen_ai.response.service_tier", "openai.response.service_tier"),
            *("gen_ai.openai.response.service_tier", "gen_ai.request.service_tier"),
            *("openai.request.service_tier", "gen_ai.openai.request.service_tier"),
        ),
    },
    sends_cost=False,
    has_body_objects=True,
)

COPILOT_CHAT = replace(GENAI, name_prefix="copilot_chat.", event_names=_COPILOT_EVENT_NAMES)
