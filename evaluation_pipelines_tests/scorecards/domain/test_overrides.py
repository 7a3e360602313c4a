"""Overrides on cards: which one counts, which is only shown, and their states."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.overrides import with_overrides, with_states
from evaluation_pipelines_tests.scorecard_builders import REGISTERED_AT, overrides, said

CARD: dict[str, Any] = {
    "organization_id": "default",
    "session_key": "s1#baseline-1",
    "profile_id": "p",
    "content_hash": "0",
    "scale_min": 0.0,
    "scale_max": 100.0,
    "overall_score": 50.0,
}


def shown(*given: dict[str, object], **columns: Any) -> dict[str, Any]:
    """Return a card with overrides applied."""
    frame = pl.DataFrame([CARD | columns])
    (row,) = with_overrides(frame, overrides(*given)).rows(named=True)
    assert row["overall_score"] == (CARD | columns)["overall_score"]  # never changed
    return row


def test_without_an_override_the_automatic_score_counts() -> None:
    row = shown()

    assert (row["human_override"], row["effective_score"], row["effective_100"]) == (None, 50, 50)


def test_an_override_counts_and_shows_annotator_time_and_reason() -> None:
    row = shown(said(1, 20))

    assert (row["effective_score"], row["effective_100"]) == (20, 20)
    assert row["human_override"] == {
        "override_score": 20.0,
        "annotator": "Ada",
        "reason": "because",
        "at": REGISTERED_AT,
        "stale": False,
    }


def test_the_override_that_was_stored_last_counts() -> None:
    assert shown(said(2, 80), said(1, 20))["effective_score"] == 80
    earlier = said(3, 10, made_at=REGISTERED_AT - timedelta(days=1))  # the clock was set back
    assert shown(said(2, 80), earlier)["effective_score"] == 10


def test_an_override_of_older_content_is_stale_and_does_not_count() -> None:
    row = shown(said(1, 20, content_hash="older"))

    assert row["effective_score"] == 50
    assert row["human_override"]["stale"] is True
    assert row["human_override"]["override_score"] == 20


def test_an_override_of_this_content_counts_although_an_older_one_is_stale() -> None:
    given = (said(1, 20, content_hash="older"), said(2, 80))

    assert shown(*given)["effective_score"] == 80
    assert shown(*given, content_hash="older")["effective_score"] == 20  # of the old card


@pytest.mark.parametrize(
    "other",
    [{"profile_id": "q"}, {"session_key": "s2"}, {"organization_id": "other"}],
)
def test_an_override_of_another_score_does_not_affect_the_card(other: dict[str, object]) -> None:
    assert shown(said(1, 20, **other))["human_override"] is None


def test_an_override_outlives_a_new_version_of_the_profile() -> None:
    row = shown(said(1, 20, profile_version=1))

    assert row["effective_score"] == 20


def test_a_score_on_another_scale_is_converted() -> None:
    row = shown(said(1, 20), scale_min=1.0, scale_max=5.0, overall_score=3.0)

    assert row["effective_score"] == pytest.approx(1.8)  # 1 + 0.2 * 4
    assert row["effective_100"] == pytest.approx(20)


def test_a_scale_of_another_end_is_another_scale() -> None:
    row = shown(said(1, 20), scale_max=10.0, overall_score=5.0)

    assert row["effective_score"] == pytest.approx(2)  # 20 / 100 * 10
    assert row["effective_100"] == pytest.approx(20)


def test_states_are_live_replaced_stale_or_of_the_card_only() -> None:
    given = overrides(
        said(1, 20),
        said(2, 30),
        said(3, 40, content_hash="older"),
        said(4, 50, session_key="gone"),
        said(5, 60, profile_id="q", scale_min=1.0, scale_max=5.0, automatic_score=None),
    )
    sessions = pl.DataFrame(
        {
            "organization_id": ["default"],
            "session_key": ["s1#baseline-1"],
            "content_hash": ["0"],
            "best_profile_id": ["p"],
        }
    )
    found = with_states(given, sessions)

    assert dict(found.select("override_id", "state").iter_rows()) == {
        "1": "replaced",
        "2": "live",
        "3": "stale",
        "4": "stale",
        "5": "card_only",
    }
    # (60 - 1) / 4 of 100: off the scale, which is checked when it is stored.
    assert found.filter(override_id="5").select("override_100", "automatic_100").row(0) == (
        1475.0,
        None,
    )
    assert found["automatic_100"].to_list()[:4] == [50.0] * 4
