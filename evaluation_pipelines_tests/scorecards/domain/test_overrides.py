"""Overrides on cards: which one counts, which is only shown, and their states."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.overrides import with_overrides, with_states
from evaluation_pipelines_tests.world.scorecards import REGISTERED_AT, overrides, said

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


OLDER = said(1, 20, content_hash="older")


@pytest.mark.parametrize(
    ("given", "columns", "score", "of_100", "kept"),
    [
        ([], {}, 50, 50, None),
        # One of older content is shown and does not count, but for the card of that content.
        ([OLDER], {}, 50, 50, (20, True)),
        ([OLDER, said(2, 80)], {}, 80, 80, (80, False)),
        ([OLDER, said(2, 80)], {"content_hash": "older"}, 20, 20, (20, False)),
        # One of another score does not affect the card.
        ([said(1, 20, profile_id="q")], {}, 50, 50, None),
        ([said(1, 20, session_key="s2")], {}, 50, 50, None),
        ([said(1, 20, organization_id="other")], {}, 50, 50, None),
        ([said(1, 20, profile_version=9)], {}, 20, 20, (20, False)),  # versions are one profile
        # On another scale: 1 + 0.2 * 4, and 20 / 100 * 10.
        ([said(1, 20)], {"scale_min": 1.0, "scale_max": 5.0}, 1.8, 20, (20, False)),
        ([said(1, 20)], {"scale_max": 10.0}, 2, 20, (20, False)),
    ],
)
def test_an_override_of_the_same_content_and_profile_counts_on_the_scale_of_the_card(
    given: list[dict[str, object]],
    columns: dict[str, Any],
    score: float,
    of_100: float,
    kept: tuple[float, bool] | None,
) -> None:
    row = shown(*given, **columns)
    assert (row["effective_score"], row["effective_100"]) == pytest.approx((score, of_100))
    found = row["human_override"]
    assert (found and (found["override_score"], found["stale"])) == kept


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
