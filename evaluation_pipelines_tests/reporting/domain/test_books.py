"""The books of a day: numbers counted, sums worked out by hand, and each way in which they fail."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime

import polars as pl
import pytest

from evaluation_pipelines.reporting.domain.book_states import STATES, Booking
from evaluation_pipelines.reporting.domain.books import (
    EVENT_COLUMNS,
    SCORINGS,
    Counts,
    DayBooks,
    Equation,
    Term,
    Unattributed,
    book_rows,
    books_balance,
    count_events,
    count_sessions,
    equations,
)
from evaluation_pipelines.schemas import EVALUATION_BOOKS, SESSION_EVALUATIONS
from evaluation_pipelines.sessions.domain.checks import senders
from evaluation_pipelines_tests.world.rows import Row, api_request, don, events_frame, prompt, tool

SOUND = {
    # 100 events were counted: 90 under days of the range, 10 of a day far in the future.
    # Of the 20 of this day 17 are kept and 3 were sent again.
    "counted": 100,
    "within": 90,
    "outside": 10,
    "of_date": 20,
    "landed": 20,
    "kept": 17,
    "copies": 3,
    # 4 sessions sent them; two masques in one of them make 5 windows, 4 of which have a card.
    "senders": 4,
    "with_window": 4,
    "windows": 5,
    "performed": 5,
    "carded": 4,
    "cards": 4,
    "scored": 4,
    "deferred": 1,
    "scorings": 6,
    "booked": 5,
    "of_vanished": 1,
}


def found(changed: Mapping[str, int] = SOUND, **examples: tuple[str, ...]) -> list[Equation]:
    """The equations of a sound day in which some numbers are others."""
    return [*equations(Counts(Counter({**SOUND, **changed}), examples))]


def events(*rows: Row) -> pl.DataFrame:
    return events_frame(rows).select(EVENT_COLUMNS)


def windows(*names: str, content: str = "0") -> pl.DataFrame:
    rows = [("default", f"{name}#baseline-1", content, name, f"card-{name}") for name in names]
    columns = ["organization_id", "session_key", "content_hash", "session_id", "card_id"]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def numbers(counts: Counts, *names: str) -> tuple[int, ...]:
    return tuple(counts.numbers[name] for name in names)


def test_a_sound_day_balances_and_shows_both_sides() -> None:
    assert {equation.name: str(equation) for equation in found()} == {
        "every_event_is_filed": "100 events read, all days = "
        "90 filed under days from the start date to today + 10 filed under other days",
        "landed_parts_are_whole": "20 events filed under the day = 20 in its files",
        "every_event_is_kept_once": "20 events filed under the day = 17 kept + 3 duplicates",
        "every_kept_event_has_landed": "0 kept events that were never filed = 0",
        "every_session_has_a_window": "4 sessions that sent events = 4 with a session window",
        "every_window_has_its_performance": "5 session windows = 5 with a performance row",
        "every_session_is_in_one_state": "5 session windows = 4 scored by profile + 1 postponed",
        "every_score_has_its_session": "0 scores without a current session window = 0",
        "every_card_is_there": "4 sessions scored by scorecard = 4 with that scorecard",
        "every_scoring_is_booked": "6 judgments = "
        "5 for sessions of the day + 1 for windows that no longer exist",
    }
    result = books_balance(found())
    assert (result.passed, result.expected) == (True, "10 equations that add up")
    assert (result.found, result.severity) == ("they do", "error")


@pytest.mark.parametrize(
    ("changed", "name", "difference"),
    [
        ({"counted": 101}, "every_event_is_filed", 1),  # 90 + 10 filed
        ({"landed": 18}, "landed_parts_are_whole", 2),
        ({"kept": 16, "not_kept": 1}, "every_event_is_kept_once", 1),  # 20 filed, 16 + 3 known
        ({"never_landed": 2}, "every_kept_event_has_landed", 2),
        ({"with_window": 3}, "every_session_has_a_window", 1),
        ({"performed": 4}, "every_window_has_its_performance", 1),
        ({"deferred": 0}, "every_session_is_in_one_state", 1),
        ({"deferred": 0, "failed": 3}, "every_session_is_in_one_state", -2),
        ({"strays": 1}, "every_score_has_its_session", 1),
        ({"cards": 1}, "every_card_is_there", 3),
        ({"booked": 2}, "every_scoring_is_booked", 3),
    ],
)
def test_each_number_that_is_off_breaks_its_equation(
    changed: dict[str, int], name: str, difference: int
) -> None:
    broken = [equation for equation in found(changed) if not equation.is_balanced]
    assert [(equation.name, equation.difference) for equation in broken] == [(name, difference)]


def test_a_breach_names_both_sides_the_difference_and_examples() -> None:
    examples = ("acme, s5#baseline-1",)
    result = books_balance(found({"deferred": 0}, every_session_is_in_one_state=examples))
    assert not result.passed
    assert result.found == (
        "every_session_is_in_one_state: 5 session windows, but 4 scored by profile: "
        "1 not accounted for"
    )
    assert result.examples == ("every_session_is_in_one_state: acme, s5#baseline-1",)


def test_parts_that_are_too_many_and_a_whole_that_should_be_nothing_say_so() -> None:
    too_many = Equation("e", Term(2, "sheep"), (Term(1, "white"), Term(3, "black")))
    assert str(too_many) == "2 sheep, but 1 white + 3 black: 2 too many"
    assert (
        str(Equation("e", Term(32280, "sheep"))) == "32,280 sheep, but 0: 32,280 not accounted for"
    )
    assert str(Equation("e", Term(2, "wolves"))) == "2 wolves, but 0: 2 not accounted for"
    assert str(Equation("e", Term(0, "sheep"), (Term(0, "white"),))) == "0 sheep = 0 white"
    both = Equation("e", Term(0, "sheep"), (Term(0, "white"), Term(0, "black")))
    assert str(both) == "0 sheep = 0"


def test_what_was_sent_twice_or_logged_again_is_a_copy() -> None:
    first = api_request(1, request_id="r1")
    landed = [prompt(0), prompt(0), prompt(0), first, api_request(5, request_id="r1"), tool(2)]
    counted = count_events(events(*landed), events(prompt(0), first, tool(2)))
    # Three prompts are one and two copies, the second log of r1 is the third.
    names = ("landed", "kept", "copies", "not_kept", "never_landed")
    assert numbers(counted, *names) == (6, 3, 3, 0, 0)


def test_a_request_logged_again_is_a_copy_though_one_of_its_copies_was_damaged() -> None:
    first, again = api_request(0, request_id="r1"), {"event_id": b"b" * 16}
    landed = [
        first,
        api_request(1, request_id="[]", **again),
        api_request(1, request_id="r1", **again),
    ]
    counted = count_events(events(*landed), events(first))
    # Three rows are two events, of which the second is the request of the first.
    assert numbers(counted, "landed", "kept", "copies", "not_kept") == (3, 1, 2, 0)


def test_a_request_is_no_copy_of_another_session_or_of_an_unnamed_one() -> None:
    landed = [api_request(1, session_id="s2", request_id="r1"), api_request(1), api_request(2)]
    kept = [api_request(3, request_id="r1"), api_request(2)]
    counted = count_events(events(*landed), events(*kept))
    assert numbers(counted, "copies", "not_kept", "never_landed") == (0, 2, 1)


def test_an_event_that_was_dropped_and_one_from_nowhere_are_named_for_each_shard() -> None:
    dropped, alien = tool(1, session_id="s7"), tool(2, session_id="s8")
    counted = count_events(events(prompt(0), dropped), events(prompt(0), alien))
    assert numbers(counted, "not_kept", "never_landed") == (1, 1)
    (lost,) = counted.examples["every_event_is_kept_once"]
    (unknown,) = counted.examples["every_kept_event_has_landed"]
    assert (lost[-17:], unknown[-17:]) == (", tool_result, s7", ", tool_result, s8")
    both = counted + counted
    assert numbers(both, "landed", "kept", "not_kept", "never_landed") == (4, 4, 2, 2)
    assert both.examples["every_event_is_kept_once"] == (lost, lost)


def test_tables_with_the_same_sessions_leave_nothing_over() -> None:
    both = windows("s1", "s2")
    sent = events(prompt(0), prompt(0, session_id="s2"), don("Codesmith", 0, session_id="s3"))
    counted = count_sessions(senders(sent), both, both, both, ["card-s1", "card-s2"])
    names = ("senders", "with_window", "windows", "performed", "strays", "carded", "cards")
    assert numbers(counted, *names) == (2, 2, 2, 2, 0, 2, 2)


def test_what_is_missing_on_either_side_is_counted_and_named() -> None:
    sent = events(prompt(0), prompt(0, session_id="s9"))
    scored = pl.concat([windows("s1"), windows("s5")])
    counted = count_sessions(senders(sent), windows("s1", "s2"), windows("s1"), scored, ["card-s5"])
    names = ("senders", "with_window", "performed", "strays", "carded", "cards")
    assert numbers(counted, *names) == (2, 1, 1, 1, 2, 1)
    assert counted.examples == {
        "every_session_has_a_window": ("default, s9",),
        "every_window_has_its_performance": ("default, s2#baseline-1",),
        "every_session_is_in_one_state": ("default, s2#baseline-1",),
        "every_score_has_its_session": ("default, s5#baseline-1",),
        "every_card_is_there": ("default, s1#baseline-1",),
    }


def test_a_score_of_other_content_is_a_stray_and_its_window_has_none() -> None:
    older = windows("s1", content="old")
    counted = count_sessions(senders(events(prompt(0))), windows("s1"), older, older, ["card-s1"])
    assert numbers(counted, "performed", "strays") == (0, 2)


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


def test_a_day_is_told_by_state_with_reasons_and_as_tables_zeros_too() -> None:
    rows = [("scored", "by p"), ("failed", "late"), ("failed", "lost"), ("failed", "lost")]
    stood = [{"state": state, "reason": reason} for state, reason in rows]
    sheep = Equation("sheep", Term(3, "sheep"), (Term(2, "white"), Term(1, "black")))
    day = DayBooks(
        date(2026, 6, 1),
        datetime(2026, 6, 2, tzinfo=UTC),
        pl.DataFrame(stood, schema=EVALUATION_BOOKS.schema),
        (sheep, Equation("wolves", Term(1, "wolves"))),
        (Unattributed(7, "goats", "of the neighbour"),),
        judge_cost_usd=None,
    )
    assert not day.is_balanced
    assert day.states == {**dict.fromkeys(STATES, 0), "scored": 1, "failed": 3}
    assert list(day.states) == list(STATES)
    assert day.reasons("failed") == [("lost", 2), ("late", 1)]
    assert day.reasons("excluded") == []
    shown = day.shown()
    assert shown["states"].select("state", "sessions").rows()[6:8] == [("scored", 1), ("failed", 3)]
    assert shown["states"].height == 9
    assert shown["equations"].rows() == [
        ("sheep", "sheep", 3, "2 white + 1 black", 0),
        ("wolves", "wolves", 1, "0", 1),
    ]
    assert shown["not part of a session"].rows() == [(7, "goats", "of the neighbour")]
