"""Change of the share of failures."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.regression.expected_scores import Levels
from evaluation_pipelines.comparison.domain.regression.failure_change import (
    FailureChange,
    failed_below,
    failure_change,
)
from evaluation_pipelines_tests.comparison_builders import arm

ONE = Levels(1, 1)


def change(failed_before: int, before: int, failed: int, number: int) -> FailureChange:
    """One run a day, by one person; passes score 95, failures 0."""
    sides = ((failed_before, before), (failed, number))
    scores = [[0.0] * bad + [95.0] * (size - bad) for bad, size in sides]
    return failure_change(
        arm(scores[0], people=[0] * before, days=range(before)),
        arm(scores[1], people=[0] * number, days=range(before, before + number)),
        ONE,
        50.0,
    )


def test_more_failures_by_hand() -> None:
    found = change(5, 100, 4, 20)
    # 5 % were to be expected and 20 % failed: 15 % of 95 points.
    assert found.value == pytest.approx(-14.25)
    assert found.errors.mean() == pytest.approx(-14.25)
    # Of 9 failures 4 or more fall into a sixth of the runs with 1 - 0.1938 - 0.3489 - 0.2791 -
    # 0.1302 = 0.0480, a normal tail of 1.664.
    assert found.deviates == pytest.approx(-1.664, abs=2e-3)


def test_its_interval_by_tables_of_clopper_and_pearson() -> None:
    low, high = change(5, 100, 4, 20).ends(1.959964)
    # 4 of 9: 0.1370 to 0.7880. 0.1370 / 0.8630 * 5 = 0.794 times the risk of 5 %; the other end
    # would be 93 % of the runs, but 4 of 20 are at most 43.66 %.
    assert high == pytest.approx((0.05 - 0.05 * 0.7938) * 95, abs=0.01)
    assert low == pytest.approx((0.05 - 0.4366) * 95, abs=0.01)


def test_fewer_failures_are_a_rise() -> None:
    found = change(20, 100, 0, 40)
    # None of 20 in 2/7 of the runs: (5/7)^20 = 0.001195, a normal tail of 3.037.
    assert found.deviates == pytest.approx(3.037, abs=2e-3)
    assert found.value == pytest.approx(0.2 * 95)
    _, high = found.ends(1.96)
    assert high == pytest.approx(0.2 * 95)


def test_without_any_failure_there_is_no_change_but_an_interval() -> None:
    found = change(0, 100, 0, 40)
    assert (found.value, found.deviates) == (0, 0)
    low, high = found.ends(1.959964)
    # Half a failure of 100 was to be expected; none of 40 is at most 8.81 %.
    assert [low, high] == pytest.approx([(0.005 - 0.0881) * 95, 0.005 * 95], abs=0.01)


def test_the_first_failures_ever_count() -> None:
    found = change(0, 100, 4, 20)
    # All 4 in a sixth of the runs: 1 / 1296, a normal tail of 3.168.
    assert found.deviates == pytest.approx(-3.168, abs=2e-3)
    assert found.ends(1.96)[1] < 0
    # 0 % failed before and 20 % now: the half failure of the test is no part of the change.
    assert found.value == pytest.approx(-0.2 * 95)


def test_the_change_is_inside_its_interval_whatever_fails() -> None:
    for failed_before, failed in ((0, 0), (0, 1), (0, 10), (5, 0), (5, 10), (49, 10)):
        found = change(failed_before, 50, failed, 10)
        low, high = found.ends(1.96)
        assert found.value == pytest.approx((failed_before / 50 - failed / 10) * found.cost)
        assert low <= found.value <= high


def test_a_window_of_failures_only() -> None:
    found = change(5, 100, 10, 10)
    low, _ = found.ends(1.96)
    assert low == pytest.approx(-95 * 0.95)


def test_failures_of_one_day_are_less_than_those_of_as_many_days() -> None:
    before = arm(([0.0] + [95.0] * 19) * 5, people=[0] * 100, days=[n // 5 for n in range(100)])
    day = np.repeat([20, 21, 22, 23], 5)
    together = arm([0.0] * 5 + [95.0] * 15, people=[0] * 20, days=[int(n) for n in day])
    scores = ([0.0] + [95.0] * 4) * 3 + [0.0, 0.0, 95.0, 95.0, 95.0]
    apart = arm(scores, people=[0] * 20, days=[int(n) for n in day])
    assert -1.5 < failure_change(before, together, ONE, 50.0).deviates < 0
    assert failure_change(before, apart, ONE, 50.0).deviates < -1.5


def test_tasks_that_fail_more_often_are_no_change() -> None:
    # Half of the runs of the second class fail, none of the first; the window has only the second.
    before = arm([95.0] * 100 + [0.0, 95.0] * 50, [0] * 100 + [1] * 100, [0] * 200, range(200))
    window = arm([0.0, 95.0] * 10, [1] * 20, [0] * 20, range(200, 220))
    found = failure_change(before, window, Levels(2, 1), 50.0)
    assert abs(found.deviates) < 0.5
    assert found.value == pytest.approx(0, abs=2)


@pytest.mark.parametrize(
    ("scores", "below"),
    [
        ([94.0, 96.0] * 20 + [0.0], 50.0),
        ([62.0, 78.0] * 20, 70 - 5 * 8 * (40 / 39) ** 0.5),  # a drop to 58 is no failure
        ([55.0, 85.0] * 20, None),  # not at the ceiling
    ],
)
def test_failures_are_far_below_the_others(scores: list[float], below: float | None) -> None:
    assert failed_below(np.array(scores)) == (below if below is None else pytest.approx(below))
