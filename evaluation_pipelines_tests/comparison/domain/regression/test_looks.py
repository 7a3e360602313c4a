"""Windows of the watch: which there are, and what they lack."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import (
    baseline,
    looks,
    shortage_of_baseline,
    shortage_of_window,
)
from evaluation_pipelines_tests.comparison_builders import arm


def daily(scores: list[float], first: int = 0, runs: int = 2) -> Arm:
    """Some runs a day by one person, with the scores in turn."""
    days = [first + at // runs for at in range(len(scores))]
    return arm(scores, people=[0] * len(scores), days=days)


VARIED = [60.0, 80.0]


def test_windows_of_one_to_four_weeks_against_the_90_days_before_each() -> None:
    found = list(looks(daily(VARIED * 200), [150]))
    assert [(each.since, each.weeks, each.channel) for each in found] == [
        (143, 1, "scores"),
        (136, 2, "scores"),
        (129, 3, "scores"),
        (122, 4, "scores"),
    ]
    assert [(len(each.window), len(each.before)) for each in found] == [
        (14, 180),
        (28, 180),
        (42, 180),
        (56, 180),
    ]
    assert (found[0].before.days[0], found[0].before.days[-1]) == (53, 142)


def test_a_night_sees_nothing_of_later_days() -> None:
    steady, later = VARIED * 100, [0.0, 10.0] * 20
    (now,) = [each for each in looks(daily(steady), [100]) if each.weeks == 1]
    (then,) = [
        each
        for each in looks(daily(steady + later), [100, 107, 120])
        if each.night == 100 and each.weeks == 1
    ]
    assert then.change.value == now.change.value == pytest.approx(0)


def test_near_100_a_change_is_mostly_of_failures_or_of_the_others() -> None:
    def channels(lately: list[float]) -> list[tuple[int, str, int]]:
        found = looks(daily([94.0, 96.0] * 50 + lately * 10), [60])
        return [(each.weeks, each.channel, len(each.window)) for each in found]

    # Fewer than 10 runs of the last week pass: they count all the same.
    assert channels([0.0, 95.0])[:2] == [(1, "failures", 14), (2, "failures", 28)]
    assert channels([85.0, 87.0])[:2] == [(1, "passes", 14), (2, "passes", 28)]


def test_what_a_window_lacks() -> None:
    assert shortage_of_window(daily([80.0] * 9)) == "9 of 10 sessions in the last 28 days"
    crowded = arm([80.0] * 12, people=[0] * 12, days=[0] * 6 + [1] * 6)
    assert shortage_of_window(crowded) == "sessions on 2 of 3 days in the last 28 days"
    assert shortage_of_window(daily([80.0] * 10)) is None


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
    assert shortage_of_baseline(before, since) == lacks
    assert bool(list(looks(before, [since + 7]))) is False  # no runs in the window


def test_the_baseline_is_90_days() -> None:
    found = baseline(daily(VARIED * 120), 100)
    assert (found.days[0], found.days[-1], len(found)) == (10, 99, 180)
