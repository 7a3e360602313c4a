"""Counting one table against the other: what is missing, repeated, or from nowhere."""

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.counts import (
    EVENT_COLUMNS,
    count_events,
    count_sessions,
)
from evaluation_pipelines.reporting.domain.reconciliation.rows import SCORINGS, book_rows
from evaluation_pipelines.reporting.domain.reconciliation.states import Booking
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.sessions.domain.checks import senders
from evaluation_pipelines_tests.builders import Row, api_request, don, events_frame, prompt, tool


def events(*rows: Row) -> pl.DataFrame:
    return events_frame(rows).select(EVENT_COLUMNS)


def windows(*names: str, content: str = "0") -> pl.DataFrame:
    """One window of each session, with that content."""
    rows = [("default", f"{name}#baseline-1", content, name, f"card-{name}") for name in names]
    columns = ["organization_id", "session_key", "content_hash", "session_id", "card_id"]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def test_what_was_sent_twice_or_logged_again_is_a_copy() -> None:
    first = api_request(1, request_id="r1")
    landed = [prompt(0), prompt(0), prompt(0), first, api_request(5, request_id="r1"), tool(2)]
    counted = count_events(events(*landed), events(prompt(0), first, tool(2)))
    # Three prompts are one and two copies, the second log of r1 is the third.
    assert (counted.landed, counted.kept, counted.copies) == (6, 3, 3)
    assert (counted.not_kept, counted.never_landed) == (0, 0)


def test_a_request_logged_again_is_a_copy_though_one_of_its_copies_was_damaged() -> None:
    first, again = api_request(0, request_id="r1"), {"event_id": b"b" * 16}
    landed = [
        first,
        api_request(1, request_id="[]", **again),
        api_request(1, request_id="r1", **again),
    ]
    counted = count_events(events(*landed), events(first))
    # Three rows are two events, of which the second is the request of the first.
    assert (counted.landed, counted.kept, counted.copies, counted.not_kept) == (3, 1, 2, 0)


def test_a_request_is_no_copy_of_another_session_or_of_an_unnamed_one() -> None:
    landed = [api_request(1, session_id="s2", request_id="r1"), api_request(1), api_request(2)]
    kept = [api_request(3, request_id="r1"), api_request(2)]
    counted = count_events(events(*landed), events(*kept))
    assert (counted.copies, counted.not_kept, counted.never_landed) == (0, 2, 1)


def test_an_event_that_was_dropped_and_one_from_nowhere_are_named() -> None:
    dropped, alien = tool(1, session_id="s7"), tool(2, session_id="s8")
    counted = count_events(events(prompt(0), dropped), events(prompt(0), alien))
    assert (counted.not_kept, counted.never_landed) == (1, 1)
    assert counted.examples_not_kept[0].endswith(", tool_result, s7")
    assert counted.examples_never_landed[0].endswith(", tool_result, s8")


def test_tables_with_the_same_sessions_leave_nothing_over() -> None:
    both = windows("s1", "s2")
    sent = events(prompt(0), prompt(0, session_id="s2"), don("Codesmith", 0, session_id="s3"))
    counted = count_sessions(senders(sent), both, both, both, ["card-s1", "card-s2"])
    assert (counted.senders, counted.with_window, counted.windows) == (2, 2, 2)
    assert (counted.performed, counted.strays, counted.carded, counted.cards) == (2, 0, 2, 2)


def test_what_is_missing_on_either_side_is_counted_and_named() -> None:
    sent = events(prompt(0), prompt(0, session_id="s9"))
    scored = pl.concat([windows("s1"), windows("s5")])
    counted = count_sessions(senders(sent), windows("s1", "s2"), windows("s1"), scored, ["card-s5"])
    assert (counted.senders, counted.with_window) == (2, 1)
    assert counted.examples_without_window == ("default, s9",)
    assert (counted.performed, counted.examples_not_performed) == (1, ("default, s2#baseline-1",))
    assert counted.examples_not_evaluated == ("default, s2#baseline-1",)
    assert (counted.strays, counted.examples_strays) == (1, ("default, s5#baseline-1",))
    assert (counted.carded, counted.cards) == (2, 1)
    assert counted.examples_without_card == ("default, s1#baseline-1",)


def test_a_score_of_other_content_is_a_stray_and_its_window_has_none() -> None:
    older = windows("s1", content="old")
    counted = count_sessions(senders(events(prompt(0))), windows("s1"), older, older, ["card-s1"])
    assert (counted.performed, counted.strays) == (0, 2)


def test_a_row_has_its_booking_and_what_its_scorings_cost() -> None:
    keys = [{"organization_id": "o", "session_key": f"s{n}#baseline-1"} for n in (1, 2, 3)]
    evaluations = pl.DataFrame(keys, schema=SESSION_EVALUATIONS.schema)
    scorings = pl.DataFrame(
        [("o", "s1#baseline-1", 2, 0.5), ("o", "s3#baseline-1", 1, None)],
        schema=SCORINGS,
        orient="row",
    )
    bookings = [Booking("scored", "a"), Booking("excluded", "b"), Booking("failed", "c")]
    rows = book_rows(evaluations, bookings, scorings)
    shown = rows.select("state", "reason", "scorings", "judge_cost_usd").rows()
    assert shown == [("scored", "a", 2, 0.5), ("excluded", "b", 0, 0.0), ("failed", "c", 1, None)]
    assert rows["what_next"].is_not_null().all()
