"""Expected scores by task class and person."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.score_change import (
    ExpectedScores,
    Levels,
)
from evaluation_pipelines_tests.comparison_builders import arm

# Three runs of each of two classes, by one person, on a day each. With a level a in common and b
# of a class, sum (y - a - b)² + b0² + b1² is least for a = 15 and b = -5 * 3/4 and +5 * 3/4.
BEFORE = arm([10.0] * 3 + [20.0] * 3, [0, 0, 0, 1, 1, 1], [0] * 6, [0, 0, 0, 1, 1, 1])


def test_levels_of_classes_with_few_runs_are_drawn_to_that_of_all() -> None:
    found = ExpectedScores(BEFORE, Levels(2, 1))
    assert found.of_runs(BEFORE) == pytest.approx([11.25] * 3 + [18.75] * 3)


def test_levels_of_people_are_drawn_to_that_of_all_too() -> None:
    before = arm([10.0] * 4 + [20.0] * 4, [0] * 8, [0] * 4 + [1] * 4)
    # 5 * 4 / (4 + 1) = 4
    found = ExpectedScores(before, Levels(1, 2))
    assert found.of_runs(before) == pytest.approx([11.0] * 4 + [19.0] * 4)


def test_the_weights_of_the_runs_before_and_the_error_of_the_expected_score() -> None:
    found = ExpectedScores(BEFORE, Levels(3, 1))
    weights, variance = found.weights(arm([0.0], [0], [0]))
    # The mean of the class has variance 1/3; that of the other one tells the level with variance
    # 1/3 and twice that of a class, 7/3. Precisions 3 + 3/7 = 24/7; weights 7/8 and 1/8.
    assert weights == pytest.approx([7 / 8, 1 / 8])
    assert variance == pytest.approx(7 / 24)


def test_a_class_that_nobody_has_seen_may_differ_as_the_others_do() -> None:
    found = ExpectedScores(BEFORE, Levels(3, 1))
    new = arm([0.0], [2], [0])
    _, variance = found.weights(new)
    # The level in common from two means of variance 1 + 1/3, and the new class with variance 1.
    assert variance == pytest.approx(2 / 3 + 1)
    assert found.of_runs(new) == pytest.approx([15.0])


def test_levels_by_day() -> None:
    runs = replace(BEFORE, days=np.array([5, 5, 5, 5, 7, 7]))
    found = ExpectedScores(runs, Levels(2, 1)).by_day
    assert found.tolist() == [[4, 3, 1, 4], [0, 0, 0, 0], [2, 0, 2, 2]]


def test_equal_shares_of_balanced_people_are_the_plain_mean() -> None:
    before = arm([50.0, 70.0] * 6, [0] * 12, [0, 1] * 6, [0] * 4 + [1] * 8)
    weights, variance = ExpectedScores(before, Levels(1, 2)).weights(
        arm([0.0, 0.0], [0, 0], [0, 1])
    )
    assert weights == pytest.approx([4 / 12, 8 / 12])
    assert variance == pytest.approx(1 / 12)
