"""The watch: windows, states, since when, which sessions to look at, and its words."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.comparison.domain import regressions
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import (
    ALERT,
    Look,
    alert_sentences,
    baseline,
    baseline_shortage,
    looks,
    verdict,
    window_shortage,
)
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import SINCE, UNTIL, arm, compared, daily, run

VARIED = [60.0, 80.0]


def test_windows_of_one_to_four_weeks_against_the_90_days_before_each() -> None:
    found = list(looks(daily(VARIED * 200), [150]))
    assert [(look.since, look.weeks, look.channel) for look in found] == [
        (143, 1, "scores"),
        (136, 2, "scores"),
        (129, 3, "scores"),
        (122, 4, "scores"),
    ]
    assert [(len(look.window), len(look.before)) for look in found] == [
        (14, 180),
        (28, 180),
        (42, 180),
        (56, 180),
    ]
    assert (found[0].before.days[0], found[0].before.days[-1]) == (53, 142)


def test_a_night_sees_nothing_of_later_days() -> None:
    steady, later = VARIED * 100, [0.0, 10.0] * 20
    (now,) = [look for look in looks(daily(steady), [100]) if look.weeks == 1]
    (then,) = [
        look
        for look in looks(daily(steady + later), [100, 107, 120])
        if look.night == 100 and look.weeks == 1
    ]
    assert then.change.value == now.change.value == pytest.approx(0)


def test_near_100_a_change_is_mostly_of_failures_or_of_the_others() -> None:
    def channels(lately: list[float]) -> list[tuple[int, str, int]]:
        found = looks(daily([94.0, 96.0] * 50 + lately * 10), [60])
        return [(look.weeks, look.channel, len(look.window)) for look in found]

    # Fewer than 10 runs of the last week pass: they count all the same.
    assert channels([0.0, 95.0])[:2] == [(1, "failures", 14), (2, "failures", 28)]
    assert channels([85.0, 87.0])[:2] == [(1, "passes", 14), (2, "passes", 28)]


def test_what_a_window_lacks() -> None:
    assert window_shortage(daily([80.0] * 9)) == "9 of 10 sessions in the last 28 days"
    crowded = arm([80.0] * 12, people=[0] * 12, days=[0] * 6 + [1] * 6)
    assert window_shortage(crowded) == "sessions on 2 of 3 days in the last 28 days"
    assert window_shortage(daily([80.0] * 10)) is None


@pytest.mark.parametrize(
    ("before", "since", "lacks"),
    [
        (daily([80.0] * 29), 40, "29 of 30 sessions before the recent weeks"),
        (daily(VARIED * 27, 13), 40, "27 of 28 days of history before the recent weeks"),
        (arm(VARIED * 20, people=[0] * 40, days=[*np.repeat(range(0, 39, 3), 3), 39]),
         40, None),
        (arm(VARIED * 20, people=[0] * 40, days=sorted([n % 13 for n in range(40)])),
         40, "sessions on 13 of 14 days before the recent weeks"),
        (daily([40.0] * 60), 30, "scores that vary: all before the recent weeks are the same"),
        (daily([100.0] * 60), 30, None),
        (daily(VARIED * 30), 30, None),
    ],
)  # fmt: skip
def test_what_the_days_before_lack(before: Arm, since: int, lacks: str | None) -> None:
    assert baseline_shortage(before, since) == lacks
    assert bool(list(looks(before, [since + 7]))) is False  # no runs in the window


def test_the_baseline_is_90_days() -> None:
    found = baseline(daily(VARIED * 120), 100)
    assert (found.days[0], found.days[-1], len(found)) == (10, 99, 180)


Score = Callable[[int], float]


def history(level: Score, days: range = range(1, 125), runs: int = 6, **columns: Any) -> list[Row]:
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
    row = watched(history(lower(12, since=14)))
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
    hard = history(lambda ago: 40.0 - (12 if ago <= 14 else 0), runs=3, task_class="hard")
    easy = history(lambda ago: 80.0 - (12 if ago <= 14 else 0), runs=3, task_class="easy")
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
    assert watched(history(level))["state"] == state


def test_a_drop_that_is_certain_and_small_is_no_alert() -> None:
    row = watched(history(lower(2.5, 28), runs=60))
    assert (row["state"], row["change"]) == ("lower", pytest.approx(-2.5, abs=0.5))


def test_an_alert_stays_for_a_week_after_the_night_that_raised_it() -> None:
    # Eight days ago one week was low; since then scores are higher than ever.
    def level(ago: int, end: int) -> float:
        return 50.0 if end <= ago < end + 7 else 70.0

    assert watched(history(lambda ago: level(ago, 6) + (30 if ago < 6 else 0)))["state"] == "alert"
    assert watched(history(lambda ago: level(ago, 40)))["state"] == "steady"


def test_alerts_are_looked_for_in_the_last_seven_nights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def asking(_runs: Arm, nights: Sequence[int]) -> list[Look]:
        asked.extend(nights)
        return []

    monkeypatch.setattr(regressions, "looks", asking)
    watched(history(lower(0, 0), range(1, 60)))
    # The last one is after 90 days before the longest window, its 28 days, and six nights more.
    assert asked == [*range(124 - 6, 124 + 1)]


def test_a_new_model_says_what_it_lacks() -> None:
    row = watched(history(lower(0, 0), range(1, 21)))
    assert (row["state"], row["missing"]) == (
        "insufficient",
        "13 of 28 days of history before the recent weeks",
    )
    assert row["change"] is None
    rows = [*history(lower(0, 0), range(40, 120)), *history(lower(0, 0), range(3, 4), runs=5)]
    assert watched(rows)["missing"] == "5 of 10 sessions in the last 28 days"


def test_scores_that_never_vary_are_steady_or_not_watched() -> None:
    same = [
        run(n, 90.0, model="a", started_at=UNTIL - timedelta(days=1 + n % 60)) for n in range(300)
    ]
    assert watched(same)["state"] == "steady"  # near 100 failures are watched
    same = [run | {"score": 40.0} for run in same]
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


def test_of_one_person_nothing_can_be_left_out() -> None:
    row = watched(history(lower(12, 14), person="ada"))
    assert (row["state"], row["people"], row["change_without_one"]) == ("alert", 1, None)


def test_the_drop_of_one_person_is_told_from_that_of_all() -> None:
    rows: list[dict[str, Any]] = history(lambda _: 70.0)
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
            *history(lambda _: 40.0, range(ago, ago + 1), runs=hard, task_class="hard"),
            *history(lambda _: 80.0, range(ago, ago + 1), runs=6 - hard, task_class="easy"),
        ]

    row = watched([run for ago in range(1, 125) for run in mixed(ago)])
    assert row["state"] == "steady"
    assert row["change"] == pytest.approx(0, abs=3)


def test_more_models_need_more_evidence() -> None:
    alone = watched(history(lower(5, 14)))
    many = [run for name in "bcdefghijklmnopq" for run in history(lower(0, 0), runs=2, model=name)]
    (row,) = compared([*history(lower(5, 14)), *many]).regressions.filter(model="a").to_dicts()
    assert (alone["state"], row["state"]) == ("alert", "steady")


def test_the_watch_reaches_beyond_the_time_range_and_ends_with_it() -> None:
    assert Question(SINCE, UNTIL).watched_since == UNTIL - timedelta(days=90 + 28 + 6)
    early = UNTIL - timedelta(days=200)
    assert Question(early, UNTIL).watched_since == early
    rows = history(lower(0, 0))
    later = [run(n, 0.0, model="a", started_at=UNTIL + timedelta(hours=n)) for n in range(50)]
    assert watched([*rows, *later]) == watched(rows)


def test_models_that_were_not_used_lately_and_mixed_ones_are_not_watched() -> None:
    old, mixed = (
        history(lower(0, 0), range(29, 120)),
        history(lower(0, 0), model="mixed"),
    )
    assert compared([*old, *mixed]).regressions.is_empty()


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


OF_SCORES = (
    "8.8 points lower since 2026-11-02 (95% interval: 3.2 to 14.4 points lower). Mean "
    "automatic score: 71.2 in 84 sessions since then, 80.0 in the 90 days before for the same "
    "people and task classes."
)
OF_FAILURES = (
    "8.8 points lower since 2026-11-02 (95% interval: 3.2 to 14.4 points lower). Not passed: "
    "12 of 84 sessions since then, 5 of 1,480 in the 90 days before."
)
MOSTLY = " One person has 80% of these sessions, so this says little about others."


@pytest.mark.parametrize(
    ("columns", "sentences"),
    [
        ({}, OF_SCORES),
        ({"channel": "passes"}, OF_SCORES),
        ({"channel": "failures"}, OF_FAILURES),
        (
            {"change_without_one": -4.0},
            f"{OF_SCORES} Without one person's sessions the change is -4.0.",
        ),
        ({"people": 1, "change_without_one": None}, f"{OF_SCORES} All are from one person."),
        ({"largest_share": 0.8}, OF_SCORES + MOSTLY),
        ({"largest_share": 0.6}, OF_SCORES),
        ({"largest_share": None}, OF_SCORES),
    ],
)
def test_an_alert_says_how_much_since_when_and_by_whom(
    columns: dict[str, Any], sentences: str
) -> None:
    assert alert_sentences(ROW | columns) == sentences


BEFORE, NIGHT = 45, 59
MODELS = 3

Random = np.random.Generator


def level(random: Random, days: np.ndarray, *, is_high: bool) -> np.ndarray:
    """Scores that are ordinary or near 100, some of which fail."""
    center, spread = (95.0, random.choice([0.0, 0.5, 3.0])) if is_high else (65.0, 12.0)
    fails = random.random(len(days)) < random.choice([0.0, 0.02, 0.1])
    return np.where(fails, random.uniform(0, 49), random.normal(center, spread, len(days)))


def drawn_history(seed: int) -> Arm:
    """Runs of a model whose last days are about as good as before, lower or mostly failures."""
    random = np.random.default_rng(seed)
    counts = random.poisson(random.choice([1.2, 3.0]), NIGHT)
    days = np.repeat(np.arange(NIGHT), counts)
    scores = level(random, days, is_high=bool(random.integers(4)))
    recent = days >= random.integers(BEFORE, NIGHT)
    lowered = recent & (random.random(len(days)) < random.random())
    scores -= lowered * random.choice([0.0, 5.0, 15.0, 30.0, 90.0])
    people, classes = (random.integers(0, number, len(days)) for number in (4, 2))
    return Arm(np.clip(scores, 0, 100), people, classes, days)


def lowered(runs: Arm, since: int, seed: int) -> Arm:
    """The same runs, some of those from a day on lower: by a little, to a failure, or to 0."""
    random = np.random.default_rng(seed)
    changed = (runs.days >= since) & (random.random(len(runs)) < random.random())
    by = random.choice([1.0, 10.0, 40.0, 100.0], len(runs)) * changed
    return replace(runs, scores=np.maximum(runs.scores - by, np.minimum(runs.scores, 0)))


def by_window(runs: Arm) -> dict[int, Look]:
    return {look.since: look for look in looks(runs, [NIGHT])}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_lower_recent_scores_never_turn_an_alert_off(seed: int, again: int) -> None:
    runs = drawn_history(seed)
    for since, look in by_window(runs).items():
        worse = by_window(lowered(runs, since, again))[since]
        assert worse.change.deviates <= look.change.deviates + 1e-9
        assert worse.change.value <= look.change.value + 1e-9
        assert worse.change.lasting <= look.change.lasting + 1e-9
        if verdict(look, MODELS) == ALERT:
            event(f"alert about {look.channel}")
            assert verdict(worse, MODELS) == ALERT
