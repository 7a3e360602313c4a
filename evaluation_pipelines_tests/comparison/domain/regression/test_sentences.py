"""An alert in words."""

from datetime import UTC, datetime
from typing import Any

from evaluation_pipelines.comparison.domain.regressions import alert_sentences

ROW: dict[str, Any] = {
    "window_since": datetime(2026, 11, 2, tzinfo=UTC),
    "change": -8.8,
    "change_low": -14.4,
    "change_high": -3.2,
    "channel": "scores",
    "recent_runs": 84,
    "before_runs": 1480,
    "before_days": 90,
    "recent_score": 71.2,
    "before_score": 80.0,
    "recent_failed": 12,
    "before_failed": 5,
    "people": 3,
    "largest_share": 0.5,
    "change_without_one": -7.0,
}


def test_scores() -> None:
    assert alert_sentences(ROW) == (
        "Down 8.8 points since 2026-11-02 (3.2 to 14.4). Mean automatic score: 71.2 in 84 sessions "
        "since then, 80.0 in the 90 days before for the same people and task classes."
    )
    assert alert_sentences(ROW | {"channel": "passes"}) == alert_sentences(ROW)


def test_failures() -> None:
    assert alert_sentences(ROW | {"channel": "failures"}) == (
        "Down 8.8 points since 2026-11-02 (3.2 to 14.4). Not passed: 12 of 84 sessions since "
        "then, 5 of 1,480 in the 90 days before."
    )


def test_a_drop_of_one_person_says_so() -> None:
    assert alert_sentences(ROW | {"change_without_one": -4.0}).endswith(
        "Without one person's sessions the change is -4.0."
    )
    assert alert_sentences(ROW | {"people": 1, "change_without_one": None}).endswith(
        "All are from one person."
    )


def test_a_drop_of_runs_that_are_mostly_of_one_person_says_so() -> None:
    assert alert_sentences(ROW | {"largest_share": 0.8}).endswith(
        "One person has 80% of these sessions, so this says little about others."
    )
    assert "One person has" not in alert_sentences(ROW | {"largest_share": 0.6})
    assert "One person has" not in alert_sentences(ROW | {"largest_share": None})
