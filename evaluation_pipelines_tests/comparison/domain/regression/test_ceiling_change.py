"""Change of the mean score near 100."""

import math

import pytest

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.score_change import (
    CeilingBefore,
    CeilingChange,
    Levels,
)
from evaluation_pipelines_tests.comparison_builders import arm

PASSES = [93.0, 97.0]
BOUND = 95 - 5 * (56 * 4 / 55) ** 0.5
"""Of 28 days of them: 84.9095."""


def two_a_day(scores: list[float], first: int = 0) -> Arm:
    """Runs by one person."""
    days = [first + at // 2 for at in range(len(scores))]
    return arm(scores, people=[0] * len(scores), days=days)


def days_before(scores: list[float]) -> CeilingBefore | None:
    return CeilingBefore.of(two_a_day(scores), Levels(1, 1))


def change(scores: list[float], old: list[float] = PASSES * 28) -> CeilingChange:
    before = days_before(old)
    assert before is not None
    return before.change(two_a_day(scores, len(old) // 2))


FAILING = [93.0, 97.0, 93.0, 0.0, 97.0, 0.0, 89.0, 93.0]


def test_every_run_counts_with_its_score() -> None:
    found = change(FAILING)
    assert found.errors == pytest.approx([-2, 2, -2, -95, 2, -95, -6, -2])
    assert found.value == pytest.approx(-198 / 8)
    # Days lie 0, -48.5, -46.5 and -4 by 95; the two worst count like the third worst.
    assert found.lasting == pytest.approx(-3 * 4 / 4)
    assert found.is_of_failures


def test_the_test_is_of_bounded_scores_without_the_two_worst_days() -> None:
    found = change([*FAILING[:6], 89.0, 0.0]).bounded
    # Days lie 0, -6.05, -4.05 and -8.05 by 95; the two worst count like the third worst.
    assert found.value == pytest.approx(3 * (2 + BOUND - 95) / 2 / 4)
    # Days do not vary; runs by 56 * 4 / 55.
    assert found.error**2 == pytest.approx(56 * 4 / 55 * (1 / 8 + 1 / 56), rel=1e-4)
    assert found.freedom == 27


def test_an_outage_of_a_day_is_no_drop_and_a_rise_stays_one() -> None:
    for one_more in (95.0, 0.0):
        outage = change([*PASSES * 3, 0.0, 0.0, 93.0, one_more])
        assert (outage.bounded.value, outage.deviates, outage.lasting) == (0, 0, 0)
        assert outage.value < -15
    assert change([96.0, 98.0, 97.0, 99.0, 96.0, 98.0]).bounded.value == pytest.approx(14 / 6)


def test_the_interval_joins_bounded_scores_and_what_lies_below_them() -> None:
    failing = change(FAILING)
    low, high = failing.ends(1.959964)
    # The ends of a share of 2 of 8 runs are far away; bounded scores limit the upper one.
    assert low < failing.value - 20
    assert failing.value < high <= failing.bounded.ends(1.959964)[1] < 0
    # Without any failure it is that of the bounded scores, which are the scores.
    lower = change([89.0, 93.0] * 6)
    assert lower.ends(1.959964) == pytest.approx(lower.bounded.ends(1.959964))
    assert not lower.is_of_failures


def test_failures_before_widen_the_interval() -> None:
    old = [*PASSES * 27, 93.0, 0.0]
    found = change([90.0, 94.0] * 6, old)
    lost = found.before.lost
    assert lost is not None
    low_share, high_share = lost.share.ends()
    half = found.bounded.value - found.bounded.ends(1.959964)[0]
    low, high = found.ends(1.959964)
    # One of 56 failed; now none does, so less is lost than before.
    assert low == pytest.approx(
        found.value - math.hypot(half, (1 / 56 - low_share) * lost.cost), abs=1e-3
    )
    assert high == pytest.approx(
        found.value + math.hypot(half, (high_share - 1 / 56) * lost.cost), abs=1e-3
    )


def test_scores_that_are_all_100_are_taken_to_vary_by_a_point() -> None:
    found = change([100.0, 99.0] * 6, [100.0] * 60)
    assert found.bounded.error**2 == pytest.approx(1 / 12 + 1 / 60)
    assert abs(found.deviates) < 2
    assert change([0.0] * 12, [100.0] * 60).deviates < -6


@pytest.mark.parametrize(
    ("scores", "bound", "failed_below"),
    [
        ([94.0, 96.0] * 20 + [0.0], 95 - 5 * (40 / 39) ** 0.5, 50.0),
        ([62.0, 78.0] * 20, 70 - 5 * 8 * (40 / 39) ** 0.5, 70 - 5 * 8 * (40 / 39) ** 0.5),
        ([100.0] * 40, 95.0, 50.0),
    ],
)
def test_failures_are_far_below_the_others(
    scores: list[float], bound: float, failed_below: float
) -> None:
    before = days_before(scores)
    assert before is not None
    assert (before.bound, before.failed_below) == pytest.approx((bound, failed_below))


def test_ordinary_scores_are_not_near_100() -> None:
    assert days_before([55.0, 85.0] * 20) is None
