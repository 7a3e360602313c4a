"""The state of a window in the books: one of nine, the first that holds."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.due import DueState, Window
from evaluation_pipelines.reporting.domain.book_states import (
    STATES,
    BookState,
    book,
)
from evaluation_pipelines.scorecards.domain.evaluation import FAILED_AT_START, NOT_ENDED
from evaluation_pipelines.scorecards.domain.scorecard import NO_EVIDENCE, NOT_JUDGED
from evaluation_pipelines_tests.world.rows import Row

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENDED = Window(
    organization_id="acme",
    session_key="s1#baseline-1",
    session_id="s1",
    session_date=date(2026, 3, 1),
    agent_id="codesmith",
    agent_model="model-a",
    classification_label="code",
    started_at=NOON,
    ended_at=NOON,
    is_terminal=True,
    content_level="full",
    content_hash="content-1",
)


def evaluation(
    profile_id: str | None,
    card_id: str | None,
    reason: str | None,
    excluded_by: str | None = None,
) -> Row:
    """The columns of ``session_evaluations`` that decide."""
    return {
        "profile_id": profile_id,
        "card_id": card_id,
        "reason": reason,
        "excluded_by": excluded_by,
    }


CARDED = evaluation("p", "card-1", None)
BARE = evaluation("p", None, NOT_JUDGED)


def state(evaluated: Row, judged: DueState | None = None, **changes: Any) -> tuple[BookState, str]:
    booking = book(replace(ENDED, **changes), evaluated, judged)
    assert booking.what_next == STATES[booking.state].what_next
    return booking.state, booking.reason


def test_the_states_stand_in_the_order_of_their_type() -> None:
    assert tuple(STATES) == get_args(BookState)


def test_a_card_of_the_best_match_is_a_score_whether_judged_or_computed() -> None:
    assert state(CARDED) == ("scored", "scored by p")
    assert state(CARDED, DueState("scored", "this content is scored"))[0] == "scored"
    # The limits may have changed since: what is scored stays scored.
    assert state(CARDED, DueState("due", "not scored yet", 1))[0] == "scored"
    assert state(CARDED, DueState("failed", "failed permanently: refused"))[0] == "scored"


def test_a_session_that_failed_at_the_start_waits_for_no_build() -> None:
    failed = evaluation("p", None, FAILED_AT_START)
    counts = "it failed before any tool call, which counts as 0"
    assert state(failed) == ("too_thin", f"p: {counts}")
    # The card of a profile that needs the judge comes with its score.
    assert state(failed, DueState("due", "not scored yet", 1))[0] == "deferred"
    assert state(failed, DueState("scored", "this content is scored"))[0] == "deferred"
    assert state(failed | {"card_id": "card-1"})[0] == "scored"


@pytest.mark.parametrize(
    ("evaluated", "judged", "changes", "expected"),
    [
        (CARDED | {"excluded_by": "r"}, None, {}, ("excluded", "left out by the rule r")),
        (CARDED, None, {"is_terminal": False}, ("not_terminal", "the session has not ended")),
        (
            BARE | {"profile_id": None},
            None,
            {},
            ("no_profile", "no judge profile lists 'code'"),
        ),
        (
            BARE | {"reason": NO_EVIDENCE},
            None,
            {},
            ("too_thin", "p: every criterion is unknown"),
        ),
        (BARE, DueState("too_thin", "no text"), {}, ("too_thin", "no text")),
        (BARE, DueState("sampled_out", "not among"), {}, ("sampled_out", "not among")),
        (CARDED, DueState("in_flight", "open"), {}, ("in_flight", "open")),
        (BARE, DueState("failed", "given up"), {}, ("failed", "given up")),
        (
            BARE,
            DueState("due", "not scored yet", 1),
            {},
            ("deferred", NOT_JUDGED),
        ),
        (
            BARE,
            DueState("scored", "this content is scored"),
            {},
            ("deferred", "the judge has scored it: its card comes with the next build of the date"),
        ),
        (
            BARE | {"reason": NOT_ENDED},
            None,
            {},
            (
                "deferred",
                "it has ended since the date was built: its card comes with the next build",
            ),
        ),
        (
            BARE | {"reason": None},
            None,
            {},
            ("deferred", "its card comes with the next build of the date (none yet)"),
        ),
    ],
)
def test_every_state_has_its_reason(
    evaluated: Row,
    judged: DueState | None,
    changes: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    assert state(evaluated, judged, **changes) == expected


@pytest.mark.parametrize("left_out", ["too_thin", "sampled_out"])
def test_a_session_that_was_scored_on_demand_keeps_its_state_and_says_so(left_out: Any) -> None:
    asked_for = ", with a card because it was judged on request"
    assert state(CARDED, DueState(left_out, "why")) == (left_out, f"why{asked_for}")


def test_a_session_whose_texts_expired_is_scored_if_it_has_a_card() -> None:
    spent, thin = replace(ENDED, expired="texts"), DueState("too_thin", "its texts have expired")
    scored = book(spent, CARDED, thin)
    assert (scored.state, scored.reason) == ("scored", "scored by p; its texts have expired since")
    for judged in (thin, DueState("scored", "this content is scored"), None):
        left = book(spent, BARE, judged)  # the date is not built again
        assert (left.state, left.reason) == ("too_thin", "its texts have expired")
        assert left.what_next == "nothing: the data to score it has expired"


def test_without_a_judge_the_missing_setting_is_the_reason() -> None:
    due = DueState("due", "not scored yet", 1)
    booking = book(ENDED, BARE, due, why_due="set EVAL_JUDGE_MODEL")
    assert (booking.state, booking.reason) == ("deferred", "set EVAL_JUDGE_MODEL")


_STANDINGS = st.none() | st.builds(
    DueState,
    st.sampled_from(["too_thin", "sampled_out", "in_flight", "scored", "failed", "due"]),
    st.just("why"),
)
_EVALUATED = st.builds(
    evaluation,
    st.sampled_from([None, "p"]),
    st.sampled_from([None, "card-1"]),
    st.sampled_from([None, NO_EVIDENCE, NOT_JUDGED, NOT_ENDED]),
    st.sampled_from([None, "rule"]),
)


@given(_EVALUATED, _STANDINGS, st.booleans())
def test_any_window_is_in_the_first_state_that_holds_and_in_no_other(
    evaluated: Row, judged: DueState | None, is_terminal: bool
) -> None:
    stands, has_card = judged and judged.state, evaluated["card_id"] is not None
    holds: dict[str, bool] = {
        "excluded": evaluated["excluded_by"] is not None,
        "not_terminal": not is_terminal,
        "no_profile": evaluated["profile_id"] is None,
        "too_thin": stands == "too_thin" or (not has_card and evaluated["reason"] == NO_EVIDENCE),
        "sampled_out": stands == "sampled_out",
        "in_flight": stands == "in_flight",
        "scored": has_card,
        "failed": stands == "failed",
        "deferred": True,
    }
    found, reason = state(evaluated, judged, is_terminal=is_terminal)
    assert found == next(name for name in STATES if holds[name])
    assert reason
