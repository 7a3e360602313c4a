"""The regression watch: the last week of a model against the four weeks before."""

from datetime import timedelta
from typing import Any

import pytest

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import (
    SINCE,
    UNTIL,
    compared,
    run,
    sample,
    scores,
)


def week(ago: int, values: list[float], start: int, **columns: Any) -> list[Row]:
    """Return runs of one day, a number of days before the end."""
    return sample("a", values, start, started_at=UNTIL - timedelta(days=ago), **columns)


def watched(*rows: Row) -> dict[str, Any]:
    (row,) = compared(rows).regressions.to_dicts()
    return row


def test_a_drop_of_the_last_week_is_an_alert() -> None:
    row = watched(*week(3, scores(70, 25, 4, 1), 0), *week(20, scores(85, 40, 4, 2), 100))
    assert row["state"] == "alert"
    assert (row["recent_runs"], row["before_runs"]) == (25, 40)
    assert row["change"] == pytest.approx(-15, abs=2)


@pytest.mark.parametrize(
    ("recent", "before", "state"),
    [
        (scores(85, 19, 4, 1), scores(60, 40, 4, 2), "insufficient"),
        (scores(85, 25, 4, 1), scores(70, 40, 4, 2), "higher"),
        (scores(80, 25, 9, 1), scores(80, 40, 9, 2), "steady"),
        (scores(82, 400, 2, 1), scores(84, 400, 2, 2), "lower"),  # certain, and too small
        ([80.0] * 25, [90.0] * 40, "steady"),  # no spread to judge by
    ],
)
def test_other_states_of_the_watch(recent: list[float], before: list[float], state: str) -> None:
    assert watched(*week(3, recent, 0), *week(20, before, 1000))["state"] == state


def test_of_a_single_person_sessions_tell_chance_from_change() -> None:
    drop = watched(
        *week(3, scores(70, 25, 4, 1), 0, person="ada"),
        *week(20, scores(85, 40, 4, 2), 100, person="ada"),
    )
    assert (drop["state"], drop["clustered_by"]) == ("alert", "session and day")


def test_the_watch_reaches_beyond_the_time_range_and_ends_with_it() -> None:
    rows = [
        *week(7, scores(70, 25, 4, 1), 0),  # the first moment of the last 7 days
        *week(35, scores(85, 40, 4, 2), 100),
        *week(36, [0.0] * 40, 200),
        run(999, 0.0, model="a", started_at=UNTIL),
    ]
    row = watched(*rows)
    assert (row["recent_runs"], row["before_runs"]) == (25, 40)
    assert Question(SINCE, UNTIL).watched_since == UNTIL - timedelta(days=35)
    assert Question(UNTIL - timedelta(days=90), UNTIL).watched_since == UNTIL - timedelta(days=90)


def test_holm_counts_the_models_of_a_label() -> None:
    # Each p-value alone would be below 0.05, all three together are not.
    rows: list[Row] = []
    for place, name in enumerate("abc"):
        for ago, mean, seed in ((3, 77.0, 1), (20, 80.0, 2)):
            values = scores(mean, 40, 6.6, seed)
            rows += sample(
                name, values, 1000 * place + ago * 45, 40, started_at=UNTIL - timedelta(days=ago)
            )
    found = compared(rows).regressions
    assert found["p"].max() < 0.05  # type: ignore[operator]
    assert found["p_holm"].min() >= 0.05  # type: ignore[operator]
    assert found["state"].to_list() == ["steady"] * 3
