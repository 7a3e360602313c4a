"""The equations of a day: sums worked out by hand, and each way in which they fail."""

from dataclasses import replace
from typing import Any

import pytest

from evaluation_pipelines.reporting.domain.reconciliation.counts import EventCounts, SessionCounts
from evaluation_pipelines.reporting.domain.reconciliation.equations import (
    Equation,
    IngestTotals,
    Scorings,
    Term,
    books_balance,
    equations,
)

# 100 events were counted: 90 under days of the range, 10 of a day far in the future.
# Of the 20 of this day 17 are kept and 3 were sent again.
FILED = IngestTotals(counted=100, within=90, outside=10, of_date=20, is_due=False)
EVENTS = EventCounts(landed=20, kept=17, copies=3, not_kept=0, never_landed=0)
# 4 sessions sent them; two masques in one of them make 5 windows, 4 of which have a card.
SESSIONS = SessionCounts(
    senders=4, with_window=4, windows=5, performed=5, strays=0, carded=4, cards=4
)
STATES = {"scored": 4, "deferred": 1}
SCORINGS = Scorings(in_ledger=6, booked=5, of_vanished=1)


def found(
    filed: IngestTotals = FILED,
    events: EventCounts = EVENTS,
    sessions: SessionCounts = SESSIONS,
    states: dict[str, int] = STATES,
    scorings: Scorings = SCORINGS,
) -> dict[str, Equation]:
    """Equations by name."""
    return {each.name: each for each in equations(filed, events, sessions, states, scorings)}


def broken(**changed: Any) -> dict[str, str]:
    """Those that do not add up, in words."""
    return {name: str(each) for name, each in found(**changed).items() if not each.is_balanced}


def test_a_sound_day_balances_and_shows_both_sides() -> None:
    told = {name: str(each) for name, each in found().items()}
    assert told == {
        "every_event_is_filed": "100 events counted by ingest, all days together = "
        "90 filed under days of the partitions' range + 10 filed under days outside of it",
        "landed_parts_are_whole": "20 events filed under the day = "
        "20 in the files of agent_events_landed",
        "every_event_is_kept_once": "20 events filed under the day = "
        "17 in agent_events + 3 sent or logged again",
        "every_kept_event_has_landed": "0 events in agent_events that never landed = 0",
        "every_session_has_a_window": "4 sessions that sent events = "
        "4 with a window in agent_sessions",
        "every_window_has_its_performance": "5 session windows in agent_sessions = "
        "5 in session_performance",
        "every_session_is_in_one_state": "5 session windows in agent_sessions = "
        "4 scored by profile + 1 postponed",
        "every_score_has_its_session": "0 scores of windows or content that agent_sessions "
        "does not have = 0",
        "every_card_is_there": "4 sessions evaluated by a card = 4 with that card in scorecards",
        "every_scoring_is_booked": "6 scorings in the ledger = "
        "5 of sessions of the day + 1 of windows that no longer exist",
    }
    result = books_balance(tuple(found().values()))
    assert (result.passed, result.expected) == (True, "10 equations that add up")
    assert (result.found, result.severity) == ("they do", "error")


@pytest.mark.parametrize(
    ("changed", "name", "difference"),
    [
        # 101 counted, 90 + 10 filed.
        ({"filed": replace(FILED, counted=101)}, "every_event_is_filed", 1),
        ({"events": replace(EVENTS, landed=18)}, "landed_parts_are_whole", 2),
        # 20 filed, 16 + 3 accounted for.
        ({"events": replace(EVENTS, kept=16, not_kept=1)}, "every_event_is_kept_once", 1),
        ({"events": replace(EVENTS, never_landed=2)}, "every_kept_event_has_landed", 2),
        ({"sessions": replace(SESSIONS, with_window=3)}, "every_session_has_a_window", 1),
        ({"sessions": replace(SESSIONS, performed=4)}, "every_window_has_its_performance", 1),
        ({"states": {"scored": 4}}, "every_session_is_in_one_state", 1),
        ({"states": {"scored": 4, "failed": 3}}, "every_session_is_in_one_state", -2),
        ({"sessions": replace(SESSIONS, strays=1)}, "every_score_has_its_session", 1),
        ({"sessions": replace(SESSIONS, cards=1)}, "every_card_is_there", 3),
        ({"scorings": replace(SCORINGS, booked=2)}, "every_scoring_is_booked", 3),
    ],
)
def test_each_number_that_is_off_breaks_its_equation(
    changed: dict[str, Any], name: str, difference: int
) -> None:
    assert list(broken(**changed)) == [name]
    assert found(**changed)[name].difference == difference


def test_a_breach_names_both_sides_the_difference_and_examples() -> None:
    sessions = replace(SESSIONS, examples_not_evaluated=("acme, s5#baseline-1",))
    result = books_balance(tuple(found(sessions=sessions, states={"scored": 4}).values()))
    assert not result.passed
    assert result.found == (
        "every_session_is_in_one_state: 5 session windows in agent_sessions, but 4 scored by "
        "profile: 1 not accounted for"
    )
    assert result.examples == ("every_session_is_in_one_state: acme, s5#baseline-1",)


def test_parts_that_are_too_many_and_a_whole_that_should_be_nothing_say_so() -> None:
    too_many = Equation("e", Term(2, "sheep"), (Term(1, "white"), Term(3, "black")))
    assert str(too_many) == "2 sheep, but 1 white + 3 black: 2 too many"
    assert str(Equation("e", Term(2, "wolves"))) == "2 wolves, but 0: 2 not accounted for"
    assert str(Equation("e", Term(0, "sheep"), (Term(0, "white"),))) == "0 sheep = 0 white"
    assert (
        str(Equation("e", Term(0, "sheep"), (Term(0, "white"), Term(0, "black")))) == "0 sheep = 0"
    )


def test_events_may_wait_for_a_build_that_is_due_and_for_no_other() -> None:
    ahead = replace(EVENTS, kept=15, not_kept=2, examples_not_kept=("e1",))
    assert list(broken(events=ahead)) == ["every_event_is_kept_once"]
    due = found(filed=replace(FILED, is_due=True), events=ahead)["every_event_is_kept_once"]
    assert str(due) == (
        "20 events filed under the day = 15 in agent_events + 3 sent or logged again + "
        "2 waiting for the build of the day"
    )
    assert due.examples == ()
