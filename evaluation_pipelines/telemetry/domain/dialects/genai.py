"""Agents that follow the GenAI conventions, and the results of their tool calls."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    AnyValue,
    KeyValue,
    flag,
    json_text,
    milliseconds,
    plain_attribute,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    EVALUATED_TRACE,
    Dialect,
    Row,
    leave_out_cached,
    names,
)
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    env_file,
    standard_variables,
)
from evaluation_pipelines.telemetry.domain.event_ids import content_id
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION
from evaluation_pipelines.telemetry.domain.otlp import LogRecord
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome

MESSAGES = "gen_ai.input.messages"
_KEPT = ("gen_ai.conversation.id", "gen_ai.system", "gen_ai.provider.name", "gen_ai.agent.id")
_NOT_KEPT = ("gen_ai.", "event.", "server.", "error.")


def tool_results(record: LogRecord) -> list[LogRecord]:
    """Return a record for each result of a tool in the new messages of a call to a model."""
    pairs = record.attributes or []
    messages = _messages(next((pair.value for pair in pairs if pair.key == MESSAGES), None))
    of_model = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    if not of_model:
        return []
    kept = [pair for pair in pairs if pair.key in _KEPT or not pair.key.startswith(_NOT_KEPT)]
    asked = {part.get("id"): part for part in _parts(messages[: of_model[-1] + 1], "tool_call")}
    results = _parts(messages[of_model[-1] + 1 :], "tool_call_response")
    return [_record(record, kept, asked.get(result.get("id"), {}), result) for result in results]


def _record(
    record: LogRecord, kept: list[KeyValue], asked: dict[str, Any], result: dict[str, Any]
) -> LogRecord:
    arguments = asked.get("arguments")
    named = {
        "gen_ai.tool.name": asked.get("name"),
        "gen_ai.tool.call.id": result.get("id"),
        "gen_ai.tool.call.arguments": None if arguments is None else _text(arguments),
    }
    told = [KeyValue(name, AnyValue(_text(value))) for name, value in named.items() if value]
    body = {"id": result.get("id"), "content": _text(result.get("response", result.get("result")))}
    values = [{"key": name, "value": {"stringValue": value}} for name, value in body.items()]
    # Just before the model answers: it has read them.
    times = (_before(record.time_unix_nano), _before(record.observed_time_unix_nano))
    return LogRecord(
        [*kept, *told], {"kvlistValue": {"values": values}}, *times, "gen_ai.tool.message"
    )


def _messages(value: AnyValue | None) -> list[dict[str, Any]]:
    sent = plain_attribute(value)
    try:
        found = json.loads(sent) if isinstance(sent, str) else sent
    except (ValueError, RecursionError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _parts(messages: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    parts = [message.get("parts") for message in messages]
    found = [part for items in parts if isinstance(items, list) for part in items]
    return [
        part
        for part in found
        if isinstance(part, dict) and part.get("type") == kind and _is_id(part.get("id"))
    ]


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _before(sent: Any) -> Any:
    """Return a time a microsecond earlier; what is no time stays as it is."""
    try:
        nanoseconds = int(sent)
    except (TypeError, ValueError):
        return sent
    return str(nanoseconds - 1_000) if nanoseconds > 1_000 else sent


_EVENT_NAMES = {
    "client.inference.operation.details": "api_request",
    "user.message": "user_prompt",
    "choice": "assistant_response",
    "tool.message": "tool_result",
    "evaluation.result": "evaluation",
}

# `agent.turn` sums up calls that are logged one by one.
_COPILOT_EVENT_NAMES = {
    "session.start": "session_start",
    "summarization": "compaction",
    "tool.call": "tool_result",
    # What the user did with the edits and answers.
    **dict.fromkeys(("edit.feedback", "edit.hunk.action", "edit.survival"), "outcome"),
    **dict.fromkeys(("inline.done", "user.feedback"), "outcome"),
}

_NAMED_SESSION = "named_session"
"""Where an event of Copilot Chat has its own ``session.id``, apart from that of the resource."""

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

# All spellings that conventions and programs have used, in spans as in logs.
CALL_COLUMNS = {
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
    "gen_ai.tool.name": ("tool_name", text),
    "gen_ai.tool.call.id": ("tool_use_id", text),
    "gen_ai.tool.call_id": ("tool_use_id", text),
}
COLUMNS = {
    **CALL_COLUMNS,
    "gen_ai.agent.id": ("agent_id", text),
    "gen_ai.output.messages": ("content", text),
    "gen_ai.tool.call.arguments": ("tool_parameters", text),
    "duration_ms": ("duration_ms", milliseconds),
    "success": ("success", flag),
    "error.type": ("error_type", text),
    "error.message": ("error", text),
}


_IDENTIFIED_BY = names("""
    gen_ai.operation.name gen_ai.agent.id gen_ai.agent.name gen_ai.response.model
    gen_ai.request.model gen_ai.provider.name gen_ai.system gen_ai.response.id
    gen_ai.response.finish_reasons gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens
    gen_ai.usage.output_tokens gen_ai.usage.completion_tokens gen_ai.usage.cache_read.input_tokens
    gen_ai.usage.cache_creation.input_tokens gen_ai.usage.reasoning.output_tokens
    gen_ai.usage.reasoning_tokens gen_ai.input.messages gen_ai.output.messages
    gen_ai.tool.name gen_ai.tool.call.id gen_ai.tool.call_id
    duration_ms success error.type error.message turn.index request_id outcome
""")


_EVALUATION = names("""
    gen_ai.evaluation.name gen_ai.evaluation.score.value gen_ai.evaluation.score.label
    gen_ai.evaluation.explanation gen_ai.response.id evaluated.trace_id evaluated.span_id
""")


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "client.inference.operation.details":
            _refine_inference(row, rest)
        case "user.message" | "tool.message":
            _refine_message(row, rest)
        case "choice":
            row["content"] = _said(_body(rest).get("message"))
        case "assistant.message":
            # A choice that was sent back to the model as part of the conversation.
            return False
        case "tool.call":
            _refine_call(row)
        case "evaluation.result":
            _refine_evaluation(row, rest)
    return True


def _refine_evaluation(row: Row, rest: dict[str, Any]) -> None:
    """Name the session of an evaluation: its trace or agent, if it names no session.

    Equal evaluations of two spans are two.
    """
    if row.get("session_id") is None:
        trace, agent = rest.get(EVALUATED_TRACE), row.get("agent_id")
        row["session_id"] = f"trace:{trace}" if trace else f"agent:{agent}" if agent else None
    said = {name: rest[name] for name in sorted(_EVALUATION) if name in rest}
    what = ("evaluation", row["session_id"], row.get("event_time"), row.get("error_type"), said)
    row["event_id"] = content_id(NO_ORGANIZATION, *what)


def _refine_copilot(row: Row, rest: dict[str, Any]) -> bool:
    """Complete an event of Copilot Chat, whose scope also has events of the conventions.

    Its sessions are the windows of VS Code, named by the resource; only the start of a chat names
    the chat, of which nothing else is known.
    """
    named = row.pop(_NAMED_SESSION, None)
    if row["source_event_name"] == "session.start":
        rest |= {"session.id": named} if named else {}
        return True
    row["session_id"] = named or row.get("session_id")
    name = row["source_event_name"] or ""
    if name.startswith(GENAI.name_prefix):
        row["source_event_name"] = name.removeprefix(GENAI.name_prefix)
        row["event_name"] = _EVENT_NAMES.get(row["source_event_name"], "other")
    if row["event_name"] == "api_request" and "cache_read_tokens" not in row:
        row["cache_read_tokens"] = None  # not sent, however many they are
        row.setdefault("cache_creation_tokens")
    return _refine(row, rest)


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
    message = (NO_ORGANIZATION, row.get("session_id"), row["source_event_name"], body)
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


def _said(message: Any) -> str | None:
    """Return what the model said, or asked tools for: both can use the results of earlier calls."""
    asked = message.get("tool_calls") if isinstance(message, dict) else None
    return _content(message) or (json_text({"tool_calls": asked}) if asked else None)


def _content(message: Any) -> str | None:
    return text(message.get("content")) if isinstance(message, dict) else None


GENAI = Dialect(
    source_cli="genai",
    name_prefix="gen_ai.",
    scopes=(),
    event_names=_EVENT_NAMES,
    columns=COLUMNS,
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
    # Prompts are events up to 1.36 of the conventions only.
    never_sends=frozenset({"prompts", "tools_denied", "missing_events"}),
    has_body_objects=True,
    told_by=(MESSAGES, tool_results),
    identified_by=_IDENTIFIED_BY,
    prompts_switch="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, "
    "of Copilot COPILOT_OTEL_CAPTURE_CONTENT=true",
)


def _copilot_settings(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "COPILOT_OTEL_ENABLED": "true",
        "COPILOT_OTEL_PROTOCOL": "http",
        "COPILOT_OTEL_ENDPOINT": receiver.endpoint,
        "COPILOT_OTEL_CAPTURE_CONTENT": str(receiver.texts).lower(),
    }
    where = "the environment in which VS Code starts"
    return [env_file({**env, **standard_variables(receiver)}, where)]


COPILOT_CHAT = replace(
    GENAI,
    name_prefix="copilot_chat.",
    scopes=("copilot-chat",),
    event_names=_COPILOT_EVENT_NAMES,
    # Read by `_refine_copilot`.
    columns={**COLUMNS, "session.id": (_NAMED_SESSION, text)},
    refine=_refine_copilot,
    told_by=None,  # it logs each call
    never_sends=GENAI.never_sends
    | {"cache_read_tokens", "cache_creation_tokens", "cost_usd", "api_ms", "mean_api_ms"},
    program="copilot",
    settings=_copilot_settings,
)
