"""Results of tool calls that a call to a model sends along, as records of their own.

Since conventions 1.37 one record has all messages of a call to a model. Of its input, the messages
behind the last one of the model are new: the results of the tools that it asked for. They become
records of the form that conventions before had for them, ``gen_ai.tool.message``.
"""

import json
from collections.abc import Iterable
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import AnyValue, KeyValue, plain_attribute
from evaluation_pipelines.telemetry.domain.otlp import LogRecord

MESSAGES = "gen_ai.input.messages"
_KEPT = ("gen_ai.conversation.id", "gen_ai.system", "gen_ai.provider.name", "gen_ai.agent.id")
_NOT_KEPT = ("gen_ai.", "event.", "server.", "error.")


def tool_results(record: LogRecord) -> list[LogRecord]:
    """Return a record for each result of a tool in the new messages of a call to a model."""
    pairs = record.attributes or []
    messages = _messages(next((each.value for each in pairs if each.key == MESSAGES), None))
    of_model = [at for at, each in enumerate(messages) if each.get("role") == "assistant"]
    if not of_model:
        return []
    kept = [each for each in pairs if each.key in _KEPT or not each.key.startswith(_NOT_KEPT)]
    asked = {part.get("id"): part for part in _parts(messages[: of_model[-1] + 1], "tool_call")}
    results = _parts(messages[of_model[-1] + 1 :], "tool_call_response")
    return [_record(record, kept, asked.get(each.get("id"), {}), each) for each in results]


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
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _parts(messages: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    parts = [each.get("parts") for each in messages]
    found = [part for each in parts if isinstance(each, list) for part in each]
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
