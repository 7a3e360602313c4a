"""Scores at the ceiling: when they are judged in two parts, and the parts by hand."""

import math

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.differences import (
    Losses,
    TwoPart,
    is_at_ceiling,
    losses,
    mean_at_ceiling,
)
from evaluation_pipelines.comparison.domain.people import Inference
from evaluation_pipelines.numerics.shares import Share
from evaluation_pipelines_tests.comparison_builders import arm


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.0, 20, 90, 95, 100], True),  # passes (95 - 50) / 5 = 9 above, failures 17 below
        ([90.0, 95, 100], True),  # none failed
        ([0.0, 60, 75, 90], False),  # 25 / 15 = 1.7 above the pass mark
        ([0.0, 66.2, 75, 83.8], True),  # 25 / 8.8 = 2.8 above, 75 / 8.8 = 8.5 below
        ([45.0, 66.2, 75, 83.8], False),  # 30 / 8.8 = 3.4: the tail of ordinary scores
        ([0.0, 95], False),  # no spread to know
    ],
)
def test_failures_are_a_kind_of_their_own_far_below_high_passes(
    scores: list[float], *, expected: bool
) -> None:
    assert is_at_ceiling(np.array(scores)) is expected


def test_losses_are_the_share_of_failures_times_their_cost() -> None:
    side = arm([90.0, 100, 5, 95], people=[0, 0, 1, 1])
    found = losses(side, 0.0)
    assert found is not None
    # Half of the runs of one of two people: a quarter; passes of 95 less 5.
    assert (found.share.value, found.cost, found.value) == (0.25, 90, 22.5)
    assert losses(arm([10.0, 20]), 0.0) is None
    assert losses(arm([90.0, 20], people=[0, 0]), 0.0) is None


def test_both_parts_are_joined_by_mover() -> None:
    # z = 2 at an infinity of degrees: alpha = 0.0455. 0 of 16 fail: Wilson's ends 0 and
    # z²/(n + z²) = 4/20 = 0.2, 18 points of 90. The passes: 10 with an error of 3.
    alpha = math.erfc(math.sqrt(2))
    none_failed = Losses(Share(0.0, 16, 1e9), 90)
    found = TwoPart(10, Inference(10, 3, 1e9), none_failed, none_failed).ends(alpha)
    # Down: sqrt(6² + 18²) = 18.974, from the losses of the first; up the same of the second.
    assert found == pytest.approx((10 - 18.974, 10 + 18.974), abs=1e-3)


def test_the_p_value_is_the_level_whose_interval_ends_at_0() -> None:
    lost = Losses(Share(0.05, 40, 30), 90), Losses(Share(0.1, 40, 30), 90)
    for value in (12.0, -12.0):
        found = TwoPart(value, Inference(value, 3, 8), *lost)
        assert min(map(abs, found.ends(found.level_at(0)))) == pytest.approx(0, abs=1e-3)
    certain = TwoPart(99.0, Inference(99.0, 1e-9, 1e9), *lost)
    assert certain.level_at(0) == 1e-9
    assert TwoPart(0.0, Inference(0.0, 3, 8), *lost).level_at(0) == 1


def test_a_mean_without_a_failure_is_bounded_by_all_runs_of_the_label() -> None:
    side = arm([94.0, 96, 95, 95, 94, 96], people=[0, 0, 1, 1, 2, 2])
    of_label = Losses(Share(0.0, 96, 1e9), 95)
    own, found = mean_at_ceiling(95, side, None), mean_at_ceiling(95, side, of_label)
    assert own is not None
    assert found is not None
    assert own.low is not None
    assert found.low is not None
    # All means of people are 95. Wilson: 3.84 / 99.84 = 3.85% of 95 points.
    assert found.low == pytest.approx(95 - 3.655, abs=0.01)
    assert found.high == 95
    assert own.low < found.low
    assert mean_at_ceiling(95, arm([95.0, 94], people=[0, 0]), None) is None
    assert mean_at_ceiling(95, arm([95.0, 10], people=[0, 1]), None) is None
