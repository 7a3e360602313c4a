"""Differences of means, by hand and compared with scipy."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.differences import (
    Difference,
    adjusted_difference,
    difference,
    shared_classes,
)
from evaluation_pipelines_tests.comparison_builders import arm


def approx(value: float) -> Any:
    """About that much, wherever a number may stand."""
    return pytest.approx(value)


def test_independent_runs_are_compared_by_welchs_test() -> None:
    a, b = [70.0, 80, 90, 85], [60.0, 65, 75]
    found = difference(arm(a), arm(b), clustered=False)
    welch = scipy.stats.ttest_ind(a, b, equal_var=False)
    assert found.value == pytest.approx(81.25 - 66.6667, abs=1e-4)
    assert found.p == pytest.approx(welch.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(welch.confidence_interval()))


@pytest.mark.parametrize(("a", "b"), [([70.0], [60.0, 65.0]), ([70.0, 70.0], [60.0, 60.0])])
def test_without_any_spread_there_is_a_difference_and_no_interval(
    a: list[float], b: list[float]
) -> None:
    found = difference(arm(a), arm(b), clustered=False)
    assert found == Difference(70 - float(np.mean(b)))
    assert adjusted_difference(arm([70.0, 70.0]), arm([60.0, 60.0]), clustered=False).p is None


def test_a_user_who_works_with_both_is_left_out_on_both_sides() -> None:
    # Users 0, 1, 2 have 80, 70, 60 with A and 10 less with B: without anyone it is 10.
    a, b = arm([80, 70, 60], users=[0, 1, 2]), arm([70, 60, 50], users=[0, 1, 2])
    assert difference(a, b, clustered=True) == Difference(approx(10))
    # Were they six users, the same scores would say little: s = 10 on both sides.
    alone = difference(arm([80, 70, 60]), arm([70, 60, 50]), clustered=False)
    assert alone.p == pytest.approx(0.288, abs=0.001)


def test_the_clustered_error_by_hand() -> None:
    # A: user 0 has 80, user 1 has 60, user 2 has 70. B: 50, 70, 60. Means 70 and 60: 10.
    # Without 0: 65 - 65 = 0; without 1: 75 - 55 = 20; without 2: 70 - 60 = 10. Mean 10.
    # sqrt(2/3 * (100 + 100 + 0)) = 11.547; t = 0.86603 with 2 degrees: p = 0.4778.
    a, b = arm([80, 60, 70], users=[0, 1, 2]), arm([50, 70, 60], users=[0, 1, 2])
    found = difference(a, b, clustered=True)
    assert (found.value, found.error) == pytest.approx((10, 11.547), abs=1e-3)
    assert found.p == pytest.approx(0.4778, abs=1e-4)
    assert found.high == pytest.approx(10 + 4.30265 * 11.547, abs=1e-2)


def test_an_unlike_mix_of_tasks_makes_no_difference_when_adjusted() -> None:
    # Both have 90 in class 0 and 50 in class 1, but A works more on class 0:
    # as it stands (3 * 90 + 50) / 4 - (90 + 3 * 50) / 4 = 80 - 60 = 20, within classes 0.
    a = arm([90, 90, 90, 50], [0, 0, 0, 1])
    b = arm([90, 50, 50, 50], [0, 1, 1, 1])
    assert difference(a, b, clustered=False).value == 20
    assert adjusted_difference(a, b, clustered=False).value == 0


def test_classes_weigh_as_much_as_both_sides_have_of_them() -> None:
    # Class 0: 80 - 70 = 10 with 3 runs; class 1: 60 - 65 = -5 with 5 runs. Class 2 is A's alone.
    # (3 * 10 - 5 * 5) / 8 = 0.625
    a = arm([80, 60, 60, 99], [0, 1, 1, 2])
    b = arm([70, 70, 65, 65, 65], [0, 0, 1, 1, 1])
    assert adjusted_difference(a, b, clustered=False).value == pytest.approx(0.625)
    # Two classes, 8 of 9 runs.
    assert shared_classes(a, b) == (2, approx(8 / 9))


def test_without_a_common_class_nothing_can_be_said() -> None:
    a, b = arm([80, 70], [0, 0]), arm([60, 50], [1, 1])
    assert adjusted_difference(a, b, clustered=False) == Difference()
    assert shared_classes(a, b) == (0, 0.0)


def test_where_all_hangs_on_one_run_there_is_no_interval() -> None:
    # Without the only run of A in class 0 there is no common class.
    a, b = arm([80, 70, 71], [0, 1, 1]), arm([60, 50, 52], [0, 0, 0])
    assert adjusted_difference(a, b, clustered=False) == Difference(approx(80 - 54))


def test_one_cluster_on_a_side_has_no_error() -> None:
    a, b = arm([80, 70], users=[0, 0]), arm([60, 50], users=[0, 1])
    assert difference(a, b, clustered=True) == Difference(approx(20))
