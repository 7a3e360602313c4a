"""Change of a mean score."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.score_change import (
    Levels,
    ScoreChange,
    ScoresBefore,
)
from evaluation_pipelines_tests.comparison_builders import arm


def two_a_day(first: int, days: int, low: float, high: float) -> tuple[list[float], list[int]]:
    return [low, high] * days, [day for day in range(first, first + days) for _ in range(2)]


def test_the_change_and_its_error() -> None:
    scores, days = two_a_day(0, 28, 60.0, 80.0)
    before = ScoresBefore(arm(scores, people=[0] * 56, days=days), Levels(1, 1))
    scores, days = two_a_day(28, 7, 50.0, 70.0)
    found = before.change(arm(scores, people=[0] * 14, days=days))
    assert found.value == pytest.approx(-10.0)
    # Days do not vary; runs by 56 * 100 / 55 = 101.82. 101.82 / 14 + 101.82 / 56 = 9.0909
    assert found.error == pytest.approx(9.0909**0.5, rel=1e-4)
    assert found.freedom == 27
    # The 97.5% quantile of Student's t with 27 degrees of freedom is 2.0518.
    assert found.ends(1.959964) == pytest.approx((-16.186, -3.814), abs=1e-3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_students_t_is_turned_into_normal_deviates(sign: float) -> None:
    found = ScoreChange(sign * 2.0518305, 1.0, 27, np.zeros(1))
    assert found.deviates == pytest.approx(sign * 1.959964, abs=1e-5)


def test_a_change_beyond_all_doubt_is_finite() -> None:
    assert ScoreChange(-1e9, 1.0, 80, np.zeros(1)).deviates == pytest.approx(-37, abs=1)


def test_runs_may_be_taken_to_vary_by_some_points_at_least() -> None:
    scores, days = two_a_day(0, 28, 90.0, 90.0)
    before = arm(scores, people=[0] * 56, days=days)
    assert ScoresBefore(before, Levels(1, 1), smallest_spread=2.0).spread.within == 4
