"""Spans of 26 libraries and programs give the numbers of an independent reference.

Whatever way they arrive: as JSON or protobuf, in any order, apart, twice.
"""

import json
import random
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.telemetry.domain.protobuf import request_json
from evaluation_pipelines_tests.telemetry.spans.captured import (
    SOURCES,
    UNREAD,
    assembled,
    expected,
    in_protobuf,
    read,
    requests,
    single_spans,
    told,
)

ONE_TRACE = {"resp_681c7bef917a412393472ebd", "resp_9514b50aec194770843c27b3"}
"""Ids that Microsoft's library gives to calls of one turn: here one session, of the first."""

UNKNOWN_CACHED = {
    "gemini-cli": 9,
    "openai-agents-openinference": 5,
    "openai-v2": 14,
    "smolagents": 16,
}
"""Calls that do not say how many tokens were cached."""

WAYS = ("as sent", "protobuf", "shuffled", "apart", "twice")


def arriving(source: str, way: str) -> list[bytes]:
    """Return the lines of a source as they arrive."""
    lines = list(requests(source))
    alone = [json.dumps(span).encode() for span in single_spans(lines)]
    match way:
        case "protobuf":
            return [request_json(in_protobuf(line)) for line in lines]
        case "shuffled":
            random.Random(source).shuffle(alone)  # noqa: S311 - no secret
            return alone
        case "apart":
            return alone
        case "twice":
            return [*lines, *reversed(alone)]
    return lines


def as_reference(session: dict[str, Any]) -> dict[str, Any]:
    """Return what the reference says as ``told`` has it."""
    tokens = {name: n for name, n in session["tokens"].items() if name != "input"}
    names = ("prompts", "tool_calls", "tool_ok", "tool_failed", "tool_none", "api_ok", "api_failed")
    return {
        **{name: session[name] for name in names},
        "tokens": tokens,
        "cost_usd": session["cost_usd"] and round(session["cost_usd"], 9),
        "models": sorted(session["models"]),
        "tools": dict(sorted(session["tools"].items())),
        "agents": [agent for agent in session["agents"] if not agent.startswith("agent_id:")],
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES)
def test_sessions_have_the_numbers_of_the_reference(source: str, way: str) -> None:
    """Prompts, calls, requests, tokens, cost, models, tools and agents of every session."""
    batch = read(arriving(source, way))
    assert batch.quarantined == []
    assert batch.counts.value_anomalies == batch.counts.time_anomalies == 0
    events = assembled(batch.events)
    found = {str(name): told(part) for (name,), part in events.group_by("session_id")}
    wanted = {name: as_reference(value) for name, value in expected(source).items()}
    for name in ONE_TRACE & wanted.keys():
        wanted.pop(name)
        found.pop(name, None)
    assert found.keys() == wanted.keys()
    for name, session in wanted.items():
        of_session = found[name]
        if session["prompts"] is None:  # the reference sees no turn
            session["prompts"] = of_session["prompts"]
        # More agents than say so in an attribute of their own are known.
        of_session["agents"] = [
            agent for agent in of_session["agents"] if agent in session["agents"]
        ]
        assert of_session == session, name


def test_a_trace_is_one_session_whatever_ids_its_calls_have() -> None:
    """The calls of one turn have an id each, and the turn is one session."""
    events = assembled(read(requests("agent-framework")).events)
    assert ONE_TRACE & set(events["session_id"]) == {"resp_681c7bef917a412393472ebd"}


def test_cached_tokens_that_a_library_never_sends_are_unknown() -> None:
    """All input counts then, and the cost is unknown: 5 calls are chat completions."""
    unknown = {}
    for source in SOURCES:
        calls = read(requests(source)).events.filter(event_name="api_request")
        some = calls.filter(
            pl.col("cache_read_tokens").is_null() & pl.col("input_tokens").is_not_null()
        )
        assert some["cost_source"].is_in(["unknown", "reported"]).all()
        unknown[source] = some.height
    assert {source: number for source, number in unknown.items() if number} == UNKNOWN_CACHED


def test_spans_of_codex_are_counted_by_name() -> None:
    """Its logs say everything that they say."""
    batch = read(requests(UNREAD))
    assert batch.events.height == 0
    assert batch.counts.spans == batch.counts.unknown_records == batch.names.total() == 264
    assert batch.names["codex_exec", "run_turn"] == 4


def test_copilot_cli_with_a_scope_of_its_user_has_its_prompts() -> None:
    """``COPILOT_OTEL_SOURCE_NAME`` names the scope."""
    lines = requests("copilot-cli")
    renamed = [line.replace(b'{"name":"github.copilot",', b'{"name":"app",') for line in lines]
    named = assembled(read(renamed).events)
    assert told(named) == told(assembled(read(lines).events))
    prompts = named.filter(event_name="user_prompt")["content"]
    assert prompts.equals(assembled(read(lines).events).filter(event_name="user_prompt")["content"])
