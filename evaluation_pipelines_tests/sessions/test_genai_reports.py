"""Tool reports of agents that log messages of the GenAI conventions, worked out by hand."""

import json
from typing import Any

import pytest

from evaluation_pipelines.schemas import TOOL_REPORTS
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import NOON_NS, any_value, request

PROMPT, REPLY = "What is the weather in Paris?", "There is drizzle in Paris."
PARIS, OSLO = "Paris: 18 C, light drizzle", "Oslo: blizzard"
CALL = "client.inference.operation.details"


def value_of(value: Any) -> dict[str, Any]:
    """Return an AnyValue of a dictionary or a list at any depth."""
    if isinstance(value, dict):
        pairs = [{"key": name, "value": value_of(each)} for name, each in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(each) for each in value]}}
    return any_value(value)


def record(name: str, second: int, body: Any = None, **values: Any) -> dict[str, Any]:
    """Return a log record of the session ``c``; ``__`` in a name stands for a dot."""
    named = {f"gen_ai.{each.replace('__', '.')}": value for each, value in values.items()}
    sent = {"gen_ai.conversation.id": "c", "gen_ai.system": "openai", **named}
    return {
        "timeUnixNano": str(NOON_NS + second * 10**9),
        "eventName": f"gen_ai.{name}",
        "attributes": [{"key": key, "value": value_of(value)} for key, value in sent.items()],
        **({"body": value_of(body)} if body else {}),
    }


def events_of_messages() -> list[dict[str, Any]]:
    """Return an event per message, as up to 1.36 of the conventions."""

    def asks(second: int, call_id: str, city: str) -> dict[str, Any]:
        function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
        call = {"id": call_id, "type": "function", "function": function}
        return record("choice", second, {"index": 0, "message": {"tool_calls": [call]}})

    return [
        record("user.message", 0, {"content": PROMPT}),
        asks(1, "t1", "Paris"),
        record("tool.message", 2, {"id": "t1", "content": PARIS}),
        asks(3, "t2", "Oslo"),
        record("tool.message", 4, {"id": "t2", "content": OSLO}),
        record("choice", 5, {"index": 0, "message": {"content": REPLY}}),
    ]


def calls_with_messages(*, as_text: bool) -> list[dict[str, Any]]:
    """Return an event per call of the model with all messages, as since 1.37."""

    def message(role: str, kind: str, **values: Any) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": kind, **values}]}

    def asks(call_id: str, city: str) -> dict[str, Any]:
        arguments = {"city": city}
        return message(
            "assistant", "tool_call", id=call_id, name="get_weather", arguments=arguments
        )

    first = [message("user", "text", content=PROMPT)]
    second = [
        *(*first, asks("t1", "Paris")),
        message("tool", "tool_call_response", id="t1", response=PARIS),
    ]
    third = [
        *(*second, asks("t2", "Oslo")),
        message("user", "tool_call_response", id="t2", response=OSLO),
    ]
    answers = (asks("t1", "Paris"), asks("t2", "Oslo"), message("assistant", "text", content=REPLY))
    return [
        record(
            CALL,
            at,
            operation__name="chat",
            input__messages=json.dumps(given) if as_text else given,
            output__messages=json.dumps([answer]) if as_text else [answer],
        )
        for at, (given, answer) in enumerate(zip((first, second, third), answers, strict=True))
    ]


@pytest.mark.parametrize(
    ("records", "tool", "unknown"),
    [
        (events_of_messages(), "(unnamed)", ["corrected", "loops", "repeated"]),
        (calls_with_messages(as_text=True), "get_weather", []),
        (calls_with_messages(as_text=False), "get_weather", []),
    ],
    ids=["events of messages", "messages as text", "messages as values"],
)
def test_wasted_calls_are_known_where_results_and_replies_are_logged(
    workplace: Workplace, records: list[dict[str, Any]], tool: str, unknown: list[str]
) -> None:
    sent = json.dumps(request(records, {"service.name": "mine"}, scope="mine")).encode() + b"\n"
    workplace.land("a.jsonl", sent)
    workplace.land("b.jsonl", sent)  # sent again: the same calls
    workplace.ingest()
    workplace.build()
    lake = workplace.lake
    (report,) = lake.read(TOOL_REPORTS, lake.partitions(TOOL_REPORTS)).to_dicts()

    # Messages do not say whether a call succeeded: it is in no total, and there is no score.
    assert (report["total_calls"], report["unknown_calls"]) == (0, 2)
    assert report["effectiveness_score"] is None
    # The reply uses "drizzle" of the first result, and nothing uses "blizzard" of the second one.
    assert [(each["call"], each["tool"]) for each in report["wasted"]] == [(2, tool)]
    assert (report["wasted_calls"], report["results_logged"]) == (1, 2)
    assert report["unknown"] == unknown
