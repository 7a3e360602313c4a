"""Rows of the watch: states, since when, and which sessions to look at."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import SINCE, UNTIL, compared, run

Score = Callable[[int], float]


def daily(level: Score, days: range = range(1, 125), runs: int = 6, **columns: Any) -> list[Row]:
    """Runs of ``a``, some a day; ``level`` is the mean by days before the end."""
    rows, start = [], 100_000 * len(str(columns))
    for ago in days:
        random = np.random.default_rng([start, ago])
        for at in range(runs):
            score = float(np.clip(level(ago) + random.normal(0, 10), 0, 100))
            more = {"model": "a", "person": f"user {at % 3}"} | columns
            number = start + ago * 100 + at
            rows.append(run(number, score, started_at=UNTIL - timedelta(days=ago), **more))
    return rows


def watched(rows: list[Row]) -> dict[str, Any]:
    (row,) = compared(rows).regressions.to_dicts()
    return row


def lower(points: float, since: int) -> Score:
    return lambda ago: 70.0 - (points if ago <= since else 0.0)


def test_a_drop_is_an_alert_that_says_since_when_how_much_and_where_to_look() -> None:
    row = watched(daily(lower(12, since=14)))
    assert (row["state"], row["channel"], row["missing"]) == ("alert", "scores", None)
    assert row["window_since"] == UNTIL - timedelta(days=14)
    assert row["window_until"] == UNTIL
    assert (row["recent_runs"], row["before_runs"], row["before_days"]) == (84, 540, 90)
    assert row["change"] == pytest.approx(-12, abs=2)
    assert row["change_low"] < -12 < row["change_high"] < 0
    assert row["before_score"] - row["recent_score"] == pytest.approx(-row["change"])
    assert row["p_quarter"] < 0.001
    assert (row["people"], row["largest_share"]) == (3, pytest.approx(1 / 3))
    assert row["change_without_one"] == pytest.approx(-12, abs=3)
    assert len(row["worst_sessions"]) == 5


def test_the_worst_sessions_are_the_lowest_for_their_task_and_person() -> None:
    hard = daily(lambda ago: 40.0 - (12 if ago <= 14 else 0), runs=3, task_class="hard")
    easy = daily(lambda ago: 80.0 - (12 if ago <= 14 else 0), runs=3, task_class="easy")
    low = run(
        1, 20.0, model="a", task_class="easy", person="user 0", started_at=UNTIL - timedelta(1)
    )
    row = watched([*hard, *easy, low])
    assert row["state"] == "alert"
    # 20 is 48 below its class; 28 and more hard runs are lower by less.
    assert row["worst_sessions"][0] == "s1#baseline-1"


@pytest.mark.parametrize(
    ("level", "state"),
    [
        (lower(0, 14), "steady"),
        (lower(-12, 14), "higher"),
        (lower(30, 200), "steady"),  # it was as low before
    ],
)
def test_other_states(level: Score, state: str) -> None:
    assert watched(daily(level))["state"] == state


def test_a_drop_that_is_certain_and_small_is_no_alert() -> None:
    row = watched(daily(lower(2.5, 28), runs=60))
    assert (row["state"], row["change"]) == ("lower", pytest.approx(-2.5, abs=0.5))


def test_an_alert_stays_for_a_week_after_the_night_that_raised_it() -> None:
    # Eight days ago one week was low; since then scores are higher than ever.
    def level(ago: int, end: int) -> float:
        return 50.0 if end <= ago < end + 7 else 70.0

    assert watched(daily(lambda ago: level(ago, 6) + (30 if ago < 6 else 0)))["state"] == "alert"
    assert watched(daily(lambda ago: level(ago, 40)))["state"] == "steady"


def test_a_new_model_says_what_it_lacks() -> None:
    row = watched(daily(lower(0, 0), range(1, 21)))
    assert (row["state"], row["missing"]) == (
        "insufficient",
        "13 of 28 days of history before the recent weeks",
    )
    row = watched([*daily(lower(0, 0), range(40, 120)), *daily(lower(0, 0), range(3, 4), runs=5)])
    assert row["missing"] == "5 of 10 sessions in the last 28 days"
    assert row["change"] is None


def test_scores_that_never_vary_are_steady_or_not_watched() -> None:
    same = [
        run(n, 90.0, model="a", started_at=UNTIL - timedelta(days=1 + n % 60)) for n in range(300)
    ]
    assert watched(same)["state"] == "steady"  # near 100 failures are watched
    same = [each | {"score": 40.0} for each in same]
    assert watched(same)["missing"] == "scores that vary: all before the recent weeks are the same"


def near_100(lately: Sequence[float]) -> list[Row]:
    """A run a day for 38 days, and then 14 on the last four, with ``lately`` in turn."""
    random = np.random.default_rng(8)
    old = [(42 - n, float(95 + random.normal(0, 3))) for n in range(38)]
    new = [(4 - n // 4, lately[n % len(lately)]) for n in range(14)]
    return [
        run(
            n,
            min(score, 100.0),
            model="a",
            person=f"user {n % 3}",
            started_at=UNTIL - timedelta(ago),
        )
        for n, (ago, score) in enumerate([*old, *new])
    ]


@pytest.mark.parametrize("failing", [75.0, 70.0, 55.0, 49.0, 20.0, 0.0])
def test_a_worse_drop_is_found_as_a_milder_one_is(failing: float) -> None:
    # 9 of 14 runs: at the lower scores fewer than 10 of them pass.
    row = watched(near_100([95.0] * 5 + [failing] * 9))
    assert row["state"] == "alert"
    assert row["change"] == pytest.approx(9 / row["recent_runs"] * (failing - 95), abs=1.5)
    assert row["change_low"] < row["change"] < row["change_high"] < 0
    below = 9 if failing < 50 else 0
    assert (row["recent_failed"], row["before_failed"]) == (below, 0)
    assert row["channel"] == ("failures" if below else "passes")


def test_when_every_recent_run_fails_it_is_an_alert() -> None:
    row = watched(near_100([0.0]))
    assert (row["state"], row["recent_failed"]) == ("alert", 14)
    assert row["change"] == pytest.approx(-95 * 14 / row["recent_runs"], abs=1.5)


def test_an_outage_of_a_day_is_no_alert() -> None:
    rows = near_100([95.0, 93.0, 97.0])
    rows += [
        run(100 + n, 0.0, model="a", person="user 1", started_at=UNTIL - timedelta(3))
        for n in range(6)
    ]
    assert watched(rows)["state"] == "steady"


def test_failures_near_100_are_counted() -> None:
    rows: list[dict[str, Any]] = daily(lambda _: 92.0)
    for at, row in enumerate(rows):
        if row["started_at"] >= UNTIL - timedelta(days=14) and at % 5 == 0:
            row["score"] = 0.0
    row = watched(rows)
    assert (row["state"], row["channel"]) == ("alert", "failures")
    # 17 of 84 runs, at about 92 points each.
    assert (row["recent_failed"], row["before_failed"]) == (17, 0)
    assert row["change"] == pytest.approx(-17 / 84 * 92, abs=1.5)
    assert row["change_high"] < 0


def test_scores_near_100_that_are_lower_and_pass() -> None:
    random = np.random.default_rng(2)
    rows: list[dict[str, Any]] = daily(lambda _: 0.0)
    for row in rows:
        drop = 6 if row["started_at"] >= UNTIL - timedelta(days=14) else 0
        row["score"] = float(95 - drop + random.normal(0, 2))
    row = watched(rows)
    assert (row["state"], row["channel"], row["recent_failed"]) == ("alert", "passes", 0)
    assert row["change"] == pytest.approx(-6, abs=1)


def test_of_one_person_nothing_can_be_left_out() -> None:
    row = watched(daily(lower(12, 14), person="ada"))
    assert (row["state"], row["people"], row["change_without_one"]) == ("alert", 1, None)


def test_the_drop_of_one_person_is_told_from_that_of_all() -> None:
    rows: list[dict[str, Any]] = daily(lambda _: 70.0)
    for row in rows:
        if row["person"] == "user 0" and row["started_at"] >= UNTIL - timedelta(days=21):
            row["score"] = max(row["score"] - 40, 0)
    row = watched(rows)
    assert (row["state"], row["people"]) == ("alert", 3)
    assert row["change_without_one"] == pytest.approx(0, abs=2)


def test_other_tasks_are_no_change_of_the_model() -> None:
    def mixed(ago: int) -> list[Row]:
        hard = 5 if ago <= 21 else 1
        return [
            *daily(lambda _: 40.0, range(ago, ago + 1), runs=hard, task_class="hard"),
            *daily(lambda _: 80.0, range(ago, ago + 1), runs=6 - hard, task_class="easy"),
        ]

    row = watched([each for ago in range(1, 125) for each in mixed(ago)])
    assert row["state"] == "steady"
    assert row["change"] == pytest.approx(0, abs=3)


def test_more_models_need_more_evidence() -> None:
    alone = watched(daily(lower(5, 14)))
    many = [each for name in "bcdefghijklmnopq" for each in daily(lower(0, 0), runs=2, model=name)]
    (row,) = compared([*daily(lower(5, 14)), *many]).regressions.filter(model="a").to_dicts()
    assert (alone["state"], row["state"]) == ("alert", "steady")


def test_the_watch_reaches_beyond_the_time_range_and_ends_with_it() -> None:
    assert Question(SINCE, UNTIL).watched_since == UNTIL - timedelta(days=90 + 28 + 6)
    early = UNTIL - timedelta(days=200)
    assert Question(early, UNTIL).watched_since == early
    rows = daily(lower(0, 0))
    later = [run(n, 0.0, model="a", started_at=UNTIL + timedelta(hours=n)) for n in range(50)]
    assert watched([*rows, *later]) == watched(rows)


def test_models_that_were_not_used_lately_and_mixed_ones_are_not_watched() -> None:
    old, mixed = daily(lower(0, 0), range(29, 120)), daily(lower(0, 0), model="mixed")
    assert compared([*old, *mixed]).regressions.is_empty()
