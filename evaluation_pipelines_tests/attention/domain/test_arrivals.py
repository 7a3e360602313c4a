"""What each program sends, and which figures lack what."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import (
    COST_COLUMNS,
    EVENT_COLUMNS,
    IS_CHECKED,
    SESSION_COLUMNS,
    CostCheck,
    arrivals,
    cost_checks,
)
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
WHOLE = {"has_content": True, "has_parameters": True, "model": "m", "cost_source": "reported"}


def events(*rows: dict[str, Any]) -> pl.DataFrame:
    schema = {name: AGENT_EVENTS.schema[name] for name in EVENT_COLUMNS}
    usual = {"source_cli": "claude_code", "event_time": NOON, "input_tokens": 5, **WHOLE}
    return pl.DataFrame([{**usual, **row} for row in rows], schema)


def sessions(*rows: dict[str, Any]) -> pl.DataFrame:
    schema = {name: AGENT_SESSIONS.schema[name] for name in SESSION_COLUMNS}
    known = {"user_id": "ada", "repository": "shop", "team": "search", "session_id": "s"}
    return pl.DataFrame([{"source_cli": "claude_code", **known, **row} for row in rows], schema)


ALL = [{"event_name": name} for name in ("user_prompt", "tool_result", "api_request")]


def test_what_is_complete_has_no_gap() -> None:
    later = {"event_name": "other", "event_time": NOON + timedelta(hours=1)}
    (found,) = arrivals(events(*ALL, later), sessions({}))
    assert (found.program, found.events_per_day, found.gaps) == ("claude_code", 4 / 7, ())
    assert found.last_event == NOON + timedelta(hours=1)


def test_each_missing_attribute_names_its_figures_and_its_switch() -> None:
    bare = {
        "has_content": False,
        "has_parameters": None,
        "model": None,
        "cost_source": "unknown",
        "input_tokens": None,
    }
    unknown = {"user_id": None, "repository": None, "team": None}
    (found,) = arrivals(events(*({**arrival, **bare} for arrival in ALL)), sessions(unknown))
    assert [gap.what for gap in found.gaps] == [
        *("prompt text", "tool call parameters", "model", "tokens"),
        *("person", "repository", "team"),
    ]
    switches = [gap.switch for gap in found.gaps]
    assert switches[:2] == ["OTEL_LOG_USER_PROMPTS=1", "OTEL_LOG_TOOL_DETAILS=1"]
    assert "enduser.id" in switches[4]
    assert {gap.lack for gap in found.gaps} == {"not sent"}


def test_models_without_a_price_are_named_with_their_sessions_and_the_file() -> None:
    """Also next to models with a price; without tokens a price would not help."""
    unknown = {"event_name": "api_request", "cost_source": "unknown", "model": "own"}
    rows = [{**unknown, "session_id": session} for session in "aab"]
    no_tokens = {**unknown, "model": "other", "input_tokens": None}
    (found,) = arrivals(events(*ALL * 3, *rows, no_tokens), sessions({}))
    (gap,) = found.gaps
    assert f"{gap}" == (
        "price of own unknown: 2 sessions lack costs (affects cost efficiency, points per dollar)"
    )
    assert gap.switch.startswith("its price in data/prices.yaml ")


def without_price(*rows: dict[str, Any]) -> list[str]:
    """Return what requests of unknown costs lack."""
    unknown = {"event_name": "api_request", "cost_source": "unknown"}
    (found,) = arrivals(events(*({**unknown, **row} for row in rows)), sessions({}))
    return [gap.what for gap in found.gaps]


def test_a_model_with_a_price_is_not_named_for_a_few_costs_that_are_unknown() -> None:
    priced = {"cost_source": "priced", "list_price_usd": 1.0}
    # 1 of 20 with a price is 5%, and 1 of 19 is more.
    assert without_price(priced, *[{}] * 19) == ["price of m"]
    assert without_price(priced, *[{}] * 18) == []
    # A subscription has list prices, and a program that reports costs requires none.
    assert without_price(*[{"list_price_usd": 1.0}] * 20, {"cost_source": "reported"}) == []


def test_of_many_models_without_a_price_five_are_named() -> None:
    named = [f"price of m{number}" for number in range(5)]
    six, seven = ([{"model": f"m{number}"} for number in range(models)] for models in (6, 7))
    assert without_price(*six) == [*named, "price of 1 more model"]
    assert without_price(*seven) == [*named, "price of 2 more models"]
    often = [{"model": "z", "session_id": name} for name in "ab"]
    assert without_price(*seven, *often) == ["price of z", *named[:4], "price of 3 more models"]


def test_texts_of_transcripts_have_another_switch() -> None:
    telemetry = {"event_name": "user_prompt", "has_content": False}
    transcript = {**telemetry, "source_event_name": "transcript.user_prompt"}
    texts = "EVAL_TRANSCRIPT_TEXTS=true, for lines read after that"
    for rows, switch in (
        ((transcript,), texts),
        ((telemetry, transcript), f"OTEL_LOG_USER_PROMPTS=1, of transcripts {texts}"),
    ):
        # A transcript has no attribute in which a team could be set.
        bare = sessions({} if len(rows) > 1 else {"team": None, "repository": None})
        (found,) = arrivals(events(*rows), bare)
        assert [gap.switch for gap in found.gaps] == [switch]


def test_what_most_sessions_lack_is_missing_with_how_many() -> None:
    """Of an attribute that some sessions have, others are asked for."""
    rows = [{"team": "search" if at < 3 else None} for at in range(12)]
    (found,) = arrivals(events(*ALL), sessions(*rows))
    assert [(gap.what, gap.lack) for gap in found.gaps] == [("team", "missing in 9 of 12 sessions")]
    assert arrivals(events(*ALL), sessions(*rows[:5]))[0].gaps == ()


def test_one_in_twenty_is_as_good_as_none_and_more_are_enough() -> None:
    rows = [{"event_name": "user_prompt", "has_content": at == 0} for at in range(20)]
    (rare,) = arrivals(events(*rows), sessions({}))
    assert [(gap.what, gap.lack) for gap in rare.gaps] == [
        ("prompt text", "missing in 19 of 20 events user_prompt")
    ]
    assert arrivals(events(*rows[:19]), sessions({}))[0].gaps == ()


SCOPES = [("desk", "strands.telemetry.tracer"), ("desk", "own"), ("shop", "crewai")]


def test_an_agent_whose_spans_name_no_session_is_named() -> None:
    traces = [{"agent_id": "desk", "session_id": f"trace:{number}"} for number in range(3)]
    others = [{"agent_id": "desk"}, {"agent_id": "shop"}]
    spans = [{"agent_id": agent, "span_scope": scope} for agent, scope in SCOPES]
    (found,) = arrivals(events(*ALL, *spans), sessions(*traces, *others))
    (gap,) = found.gaps
    assert (gap.what, gap.lack) == ("session id of desk", "missing in 3 of 4 sessions")
    assert gap.switch == 'Agent(..., trace_attributes={"session.id": SESSION_ID})'
    (unnamed,) = arrivals(events(*ALL), sessions(*traces))[0].gaps
    assert unnamed.switch == "attribute gen_ai.conversation.id on its outermost span"


def test_what_a_program_cannot_send_is_no_gap() -> None:
    """OpenCode has no switch for texts that we know, Codex always sends parameters."""
    silent = {"event_name": "user_prompt", "has_content": False, "source_cli": "opencode"}
    calls = {"event_name": "tool_result", "has_parameters": False, "source_cli": "codex"}
    found = arrivals(events(silent, calls), sessions())
    assert [(arrival.program, arrival.gaps) for arrival in found] == [
        ("codex", ()),
        ("opencode", ()),
    ]


def test_lines_of_no_program_are_left_out() -> None:
    assert arrivals(events({"event_name": "other", "source_cli": None}), sessions()) == []


def request(session: str, cost: float, price: float | None, **columns: str) -> dict[str, object]:
    usual = {"source_cli": "claude_code", "organization_id": "default", "cost_source": "reported"}
    costs = {"cost_usd": cost, "list_price_usd": price}
    return {**usual, **costs, "session_id": session, **columns}


def test_sessions_that_cost_a_tenth_more_or_less_than_listed_are_counted() -> None:
    rows = [
        # 1.1 of 1.0: a tenth, no more.
        *(request("tenth", 0.5, 0.5), request("tenth", 0.6, 0.5)),
        # 1.2 of 1.0, and 0.8 of 1.0.
        *(request("more", 0.6, 0.5), request("more", 0.6, 0.5)),
        request("less", 0.8, 1.0),
        # Without a price or without a reported cost there is nothing to check.
        *(request("unlisted", 9.0, None), request("priced", 9.0, 1.0, cost_source="priced")),
        request("free", 0.0, 0.0, source_cli="opencode"),
    ]
    schema = {name: AGENT_EVENTS.schema[name] for name in COST_COLUMNS}
    requests = pl.DataFrame(rows, schema).filter(IS_CHECKED)

    assert cost_checks(requests) == {"claude_code": CostCheck(3, 2), "opencode": CostCheck(1, 0)}
