"""Who, when, how it ended and what was logged: the other columns of agent_sessions.sql."""

import hashlib
from collections.abc import Sequence
from datetime import date
from random import Random
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS, SESSION_EVALUATIONS, Table
from evaluation_pipelines.sessions.session_queries import query_sessions
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.sql_files import read_sql
from evaluation_pipelines_tests.sql.session_queries import only_window, session_rows, windows
from evaluation_pipelines_tests.world.rows import (
    START,
    Row,
    api_request,
    decision,
    doff,
    don,
    event,
    events_frame,
    prompt,
    tool,
)

MINUTE = 60


def reply(seconds: float, **columns: object) -> Row:
    return event("assistant_response", seconds, **columns)


def failed_try(seconds: float) -> Row:
    """A try over the wire of a source that logs tries in addition to requests."""
    return event("other", seconds, source_event_name="api_request", success=False)


def api_error(seconds: float) -> Row:
    return event("api_error", seconds)


@pytest.mark.parametrize(
    "column", ["user_id", "team_id", "service_version", "classification_label", "agent_id"]
)
def test_the_newest_that_is_known_counts(column: str) -> None:
    values = {2: "new", 1: "old", 3: None}
    rows = [event("hook", second, **{column: value}) for second, value in values.items()]

    assert only_window(rows)[column] == "new"


def test_an_outcome_changes_no_figure() -> None:
    work = [prompt(0), tool(30), reply(60)]
    later = [event("outcome", second, success=False, duration_ms=5.0) for second in (40, 900)]
    assert only_window([*work, *later]) == only_window(work)


def test_the_agent_is_named_by_attribute_else_masque_else_service() -> None:
    rows = [prompt(0), don("A", 1), prompt(2), don("B", 3), prompt(4, agent_id="agent-7")]

    names = ("agent_id", "session_date", "classification_label")
    assert {key: tuple(map(row.get, names)) for key, row in windows(rows).items()} == {
        "s1#baseline-1": ("claude-code", START.date(), "general"),
        "s1#a-1": ("A", START.date(), "general"),
        "s1#b-1": ("agent-7", START.date(), "general"),
    }
    # The most frequent program is the source.
    clis = ["codex", "gemini_cli", "gemini_cli", None]
    hooks = [event("hook", second, source_cli=cli) for second, cli in enumerate(clis)]
    assert only_window(hooks)["source_cli"] == "gemini_cli"


def test_no_events_are_no_sessions() -> None:
    frame = query_sessions(events_frame([]), Settings())

    assert frame.schema == AGENT_SESSIONS.schema
    assert frame.is_empty()


def test_each_rest_counts_up_to_the_idle_limit() -> None:
    rows = [prompt(0), tool(60), prompt(60 + 31 * MINUTE), tool(60 + 41 * MINUTE)]

    window = only_window(rows)

    assert window["duration_s"] == 60 + 41 * MINUTE
    # 1 min + 30 of 31 min + 10 min
    assert window["active_s"] == 41 * MINUTE
    # 1 min + 5 of 31 min + 5 of 10 min
    assert only_window(rows, idle_minutes=5)["active_s"] == 11 * MINUTE


OPEN = [event("session_start", 0), prompt(20 * MINUTE), tool(25 * MINUTE)]
CLOSED = event("session_end", 50 * MINUTE + 1)


@pytest.mark.parametrize(
    ("rows", "duration_s", "active_s"),
    [
        ([prompt(0)], 0, 0),
        ([prompt(0), tool(0.25), reply(30 * MINUTE)], 30 * MINUTE, 30 * MINUTE),
        # Neither the 10 min before the prompt nor the 20 min before the end: only 600 s to 660 s.
        ([event("session_start", 0), prompt(600), tool(660), event("session_end", 1860)], 1860, 60),
        # Resumed: 60 s; then 1000 s from the last tool to the prompt, below the limit; then 30 s.
        ([prompt(0), tool(60), event("session_end", 100), event("session_start", 1000),
          prompt(1060), tool(1090)], 1090, 60 + 1000 + 30),
        # No work lies between a don and the first event, or the last event and a doff: it is as if
        # the session had a start and an end, but neither.
        ([*OPEN, CLOSED], 50 * MINUTE + 1, 5 * MINUTE),
        ([*OPEN, don("A", 1), doff(50 * MINUTE), CLOSED], 50 * MINUTE - 1, 5 * MINUTE),
    ],
)  # fmt: skip
def test_active_is_the_time_in_which_something_was_done(
    rows: list[Row], duration_s: float, active_s: float
) -> None:
    window = only_window(rows)
    assert (window["duration_s"], window["active_s"]) == (duration_s, active_s)


def test_the_gap_that_a_don_or_a_doff_lies_in_counts_on_its_side() -> None:
    worn = [prompt(0), don("A", 5 * MINUTE), tool(15 * MINUTE), doff(18 * MINUTE)]
    found = windows([*worn, prompt(60 * MINUTE), tool(61 * MINUTE)])

    # From 5 min to the call at 15, and from there to the doff at 18.
    assert found["s1#a-1"]["active_s"] == found["s1#a-1"]["duration_s"] == 13 * MINUTE
    assert found["s1#baseline-2"]["active_s"] == 60


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([prompt(0), tool(1)], False),
        ([don("A", 0), tool(1), doff(2)], True),
        ([don("A", 0), tool(1)], False),
        ([prompt(0), event("session_end", 1)], True),
        ([prompt(0), event("session_end", 1), event("hook", 2)], True),
        # Resumed.
        ([prompt(0), event("session_end", 1), prompt(2)], False),
        ([prompt(0), event("session_end", 1), prompt(2), event("session_end", 3)], True),
    ],
)
def test_a_doff_or_a_session_end_without_work_after_it_is_an_explicit_end(
    rows: list[Row], expected: bool
) -> None:
    assert only_window(rows)["explicit_end"] is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([prompt(0), api_request(1)], "completed"),
        ([prompt(0), tool(1, success=False)], "completed"),
        ([prompt(0), reply(1)], "completed"),
        ([prompt(0), api_error(1), api_request(2)], "completed"),
        ([prompt(0), api_request(1), api_error(2), event("hook", 3)], "failed"),
        ([prompt(0), api_error(1)], "failed"),
        ([prompt(0), failed_try(1)], "failed"),
        ([prompt(0), failed_try(1), api_request(2)], "completed"),
        ([prompt(0), event("other", 1, source_event_name="auth", success=False)], "cancelled"),
        ([prompt(0), reply(1), event("session_end", 2, success=False)], "failed"),
        ([prompt(0), reply(1), event("session_end", 2, success=True)], "completed"),
        ([prompt(0)], "cancelled"),
        ([prompt(0), decision(1, "reject"), event("session_end", 2)], "cancelled"),
    ],
)
def test_the_status_follows_from_the_last_api_event_the_end_and_the_replies(
    rows: list[Row], expected: str
) -> None:
    assert only_window(rows)["status"] == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([prompt(0), tool(1), reply(2)], "none"),
        ([prompt(0, content="fix it"), tool(1)], "prompts"),
        ([prompt(0), reply(1, content="done")], "full"),
        ([prompt(0), tool(1, tool_parameters="{}"), tool(2)], "full"),
        ([prompt(0), tool(1, success=None, content="text"), tool(2)], "full"),
        ([prompt(0, content="fix it"), tool(1, content="x"), tool(2), tool(3)], "prompts"),
    ],
)
def test_the_content_level_says_how_much_was_logged(rows: list[Row], expected: str) -> None:
    assert only_window(rows)["content_level"] == expected


def test_the_content_hash_is_over_the_ids_of_the_work_in_order() -> None:
    rows = [
        don("A", 0),
        prompt(1),
        decision(2, "accept"),
        tool(3),
        api_request(4),
        api_error(5),
        reply(6),
        doff(7),
    ]
    ids = "".join(bytes(row["event_id"]).hex() for row in rows)  # type: ignore[call-overload]

    window = only_window([*reversed(rows), event("hook", 2.5), event("session_end", 8)])

    assert window["content_hash"] == hashlib.sha256(ids.encode()).hexdigest()


def test_a_late_hook_event_leaves_the_content_hash_alone_and_a_new_prompt_does_not() -> None:
    rows = [prompt(0), tool(1)]
    before = only_window(rows)["content_hash"]

    assert only_window([*rows, event("hook", 0.5), event("other", 99)])["content_hash"] == before
    assert only_window([*rows, prompt(2)])["content_hash"] != before
    assert only_window([event("hook", 0)])["content_hash"] == hashlib.sha256(b"").hexdigest()


_NAMES = ["user_prompt", "tool_result", "api_request", "hook", "masque_don", "masque_doff"]
_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(_NAMES),
        st.integers(0, 12),
        st.sampled_from([None, "A", "B"]),
        st.sampled_from(["s1", "s2"]),
        st.sampled_from(["default", "other"]),
    ),
    max_size=25,
    unique=True,
)


def made(drawn: list[tuple[str, int, str | None, str, str]]) -> list[Row]:
    return [
        event(
            name,
            seconds,
            masque=masque,
            session_id=session,
            organization_id=None if name.startswith("masque") else organization,
            success=True if name == "tool_result" else None,
        )
        for name, seconds, masque, session, organization in drawn
    ]


@settings(max_examples=10)
@given(drawn=_EVENTS, order=st.randoms(use_true_random=False))
def test_every_event_is_in_one_window_and_the_order_of_the_rows_changes_nothing(
    drawn: list[tuple[str, int, str | None, str, str]], order: Random
) -> None:
    rows = made(drawn)
    found = session_rows(rows)

    assert session_rows(order.sample(rows, len(rows))) == found
    assert len({(row["organization_id"], row["session_key"]) for row in found}) == len(found)
    for column, name in {
        "prompts": "user_prompt",
        "tools_ok": "tool_result",
        "api_requests": "api_request",
    }.items():
        assert sum(row[column] for row in found) == sum(row["event_name"] == name for row in rows)
    donned = {row["session_id"] for row in rows if row["event_name"] == "masque_don"}
    for row in found:
        assert 0 <= row["active_s"] <= row["duration_s"]
        # Nothing rests here: only next to a don or a doff is there time without work.
        assert row["active_s"] == row["duration_s"] or row["session_id"] in donned
        assert (row["masque"] is None) == (row["attribution"] in ("baseline", "remainder"))


ONE = {"session_key": "s#baseline-1", "content_hash": "c", "session_date": date(2026, 6, 1)}


def view(
    name: str, columns: str, tables: Sequence[tuple[Table, list[dict[str, Any]]]]
) -> list[tuple[Any, ...]]:
    """Some columns of a view over rows, of which only the given columns are known."""
    with duckdb.connect() as database:
        for table, rows in tables:
            known = pl.from_dicts([ONE | row for row in rows], schema=table.schema)
            database.register(table.name, known.to_arrow())
        found = database.sql(f"select {columns} from ({read_sql(name)}) order by all")  # noqa: S608
        return found.fetchall()


def test_the_card_that_counts_is_of_the_newest_version_of_its_content() -> None:
    mine: dict[str, Any] = {"organization_id": "acme", "profile_id": "p"}
    cards: list[dict[str, Any]] = [
        mine | {"profile_version": 2, "overall_score": 40.0, "is_best_match": False},
        mine | {"profile_version": 10, "overall_score": 70.0, "is_best_match": False},
        mine | {"profile_version": 11, "overall_score": 90.0, "content_hash": "older"},
        mine | {"profile_id": "q", "profile_version": 1, "overall_score": 5.0},
    ]

    found = view(
        "current_scorecards",
        "profile_id, overall_score, is_best_match",
        [(SCORECARDS, cards), (SESSION_EVALUATIONS, [mine])],
    )

    assert found == [("p", 70.0, True), ("q", 5.0, False)]


def test_the_cost_of_a_skill_is_unknown_if_one_request_does_not_say() -> None:
    rows = [api_request(0, skill="plan", cost_usd=0.5), api_request(1, skill="plan", cost_usd=None)]
    (found,) = session_rows(rows)
    (used,) = found["used"]
    assert (used["name"], used["api_requests"], used["cost_usd"]) == ("plan", 2, None)
