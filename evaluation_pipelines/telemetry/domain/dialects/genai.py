"""Agents that follow the GenAI conventions in logs or spans, and the results of tools in logs."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    AnyValue,
    KeyValue,
    dollars,
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
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    CALL,
    CHAIN,
    TOOL,
    SpanSource,
)
from evaluation_pipelines.telemetry.domain.event_ids import content_id
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION
from evaluation_pipelines.telemetry.domain.otlp import LogRecord

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

# Operations that contain calls to a model and repeat their tokens, or make none.
_NO_CALLS = ("invoke_agent", "invoke_workflow", "create_agent", "execute_tool")

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
)

SPAN_ATTRIBUTES = {
    **CALL_COLUMNS,
    "gen_ai.usage.cache_write.input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.cache_read_input_tokens": ("cache_read_tokens", tokens),
    "gen_ai.usage.cache_write_input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.cache_creation_input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.details.reasoning_tokens": ("reasoning_tokens", tokens),
    "operation.cost": ("cost_usd", dollars),
}
_KINDS = ("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type")
_MESSAGE_EVENTS = "@gen_ai.user.message gen_ai.assistant.message gen_ai.tool.message"
CONVENTIONS = SpanSource(
    kinds=_KINDS,
    roles={
        **dict.fromkeys(("chat", "generate_content", "text_completion", "completion"), CALL),
        **dict.fromkeys(("llm_call", "call_llm"), CALL),
        **dict.fromkeys(("execute_tool", "tool_call", "tool"), TOOL),
        **dict.fromkeys(("invoke_agent", "agent", "agent_call"), AGENT),
        **dict.fromkeys(("invoke_workflow", "invoke_swarm", "workflow", "invoke_graph"), CHAIN),
    },
    columns=SPAN_ATTRIBUTES,
    ran_by=GENAI.ran_by,
    session=(
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.conversation_id",
    ),
    content=(
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
        *("gen_ai.tool.definitions", "gen_ai.tool.description", "gen_ai.tool.json_schema"),
        *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.prompt"),
        *("gen_ai.completion", "gen_ai.task.input", "gen_ai.task.output", "memory"),
        *("traceloop.entity.input", "traceloop.entity.output"),
        "traceloop.association.properties.",
    ),
    asked=(MESSAGES, "gen_ai.prompt.", _MESSAGE_EVENTS),
    replied=("gen_ai.output.messages", "gen_ai.completion.", "@gen_ai.choice"),
    prompted=(MESSAGES, "traceloop.entity.input", "@gen_ai.user.message"),
    answered=("gen_ai.output.messages", "traceloop.entity.output", "@gen_ai.choice"),
    agent=("gen_ai.agent.name", "gen_ai.agent.id"),
    parameters=("gen_ai.tool.call.arguments", "traceloop.entity.input"),
    results=("gen_ai.tool.call.result", "traceloop.entity.output"),
    # Tools of Copilot CLI, and others of the same names.
    tool_classes={
        **dict.fromkeys(("view", "read_bash", "list_bash"), "read"),
        **dict.fromkeys(("grep", "glob", "rg"), "search"),
        **dict.fromkeys(("edit", "str_replace_editor", "apply_patch"), "edit"),
        "create": "write",
        **dict.fromkeys(("bash", "powershell", "write_bash", "stop_bash"), "shell"),
        **dict.fromkeys(("web_fetch", "web_search"), "web"),
        "task": "agent",
    },
)
OTHERS = replace(CONVENTIONS, marks=("gen_ai.", *_KINDS), session=("langfuse.session.id",))
"""Spans of any other library."""
PROGRAM = AgentProgram(
    title="GenAI",
    logs=GENAI,
    prompts_switch="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, "
    "of Copilot COPILOT_OTEL_CAPTURE_CONTENT=true",
    set_by="their own",
    notes="other programs with logs of the GenAI conventions. Not tested with real telemetry",
    sends={
        "(if logged)": "user_prompt.content assistant_response.content api_request.content "
        "tool_result.tool_parameters tool_result.content",
        "(yes)": "tool_result.error_type tool_result.duration_ms tool_result.tool_use_id "
        "api_request.reasoning_tokens api_request.duration_ms api_request.request_id "
        "api_error.error user_prompt.account_id",
        "(priced)": "api_request.cost_usd",
    },
)
