"""How often the 95 % intervals hold the truth, by simulation: about 95 times in 100.

The short run (200 samples) finds an interval that is plainly wrong; the long one (2000) has the
stated tolerances. The data are hard on purpose: users of unequal size, skewed costs, unlike mixes.
"""

from collections.abc import Callable

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.differences import (
    Arm,
    Difference,
    adjusted_difference,
    difference,
)
from evaluation_pipelines.comparison.domain.effects import superiority
from evaluation_pipelines.comparison.domain.prediction_powered import Audit, corrected_mean
from evaluation_pipelines.numerics.estimates import Estimate, mean, ratio, share

Draw = Callable[[np.random.Generator], tuple[Estimate | Difference, float]]

SHORT, LONG = 200, 2000
_LEVELS = np.array([80.0, 60.0, 70.0])


def _users(
    random: np.random.Generator, number: int = 12
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Twelve users with 2 to 11 runs each."""
    return np.repeat(np.arange(number), random.integers(2, 12, number))


def mean_of_runs(random: np.random.Generator) -> tuple[Estimate, float]:
    return mean(random.normal(70, 10, 30)), 70.0


def mean_of_skewed_costs(random: np.random.Generator) -> tuple[Estimate, float]:
    return mean(random.lognormal(-1, 0.5, 40)), float(np.exp(-1 + 0.125))


def mean_by_user(random: np.random.Generator) -> tuple[Estimate, float]:
    users = _users(random)
    own = random.normal(0, 5, 12)
    return mean(70 + own[users] + random.normal(0, 10, len(users)), users), 70.0


def share_of_runs(random: np.random.Generator) -> tuple[Estimate, float]:
    return share((random.random(40) < 0.85).astype(np.float64)), 0.85


def share_by_user(random: np.random.Generator) -> tuple[Estimate, float]:
    users = _users(random)
    own = random.beta(8, 2, 12)  # mean 0.8
    return share((random.random(len(users)) < own[users]).astype(np.float64), users), 0.8


def points_per_dollar(random: np.random.Generator) -> tuple[Estimate, float]:
    costs = random.lognormal(-2, 0.5, 40)
    return ratio(random.normal(70, 10, 40), costs, None, 7), 70 / float(np.exp(-2 + 0.125))


def points_per_dollar_by_user(random: np.random.Generator) -> tuple[Estimate, float]:
    users = _users(random)
    own = random.normal(0, 5, 12)
    costs = random.lognormal(-2, 0.4, len(users)) * np.exp(own[users] / 50)
    scores = 70 + own[users] + random.normal(0, 10, len(users))
    # The mean of a lognormal cost: exp(-2 + 0.4² / 2 + 0.1² / 2).
    return ratio(scores, costs, users, 7), 70 / float(np.exp(-2 + 0.08 + 0.005))


def _side(
    random: np.random.Generator, number: int, mix: list[float], better: float, own: object
) -> Arm:
    classes, users = random.choice(3, number, p=mix), random.choice(12, number)
    offsets = np.asarray(own)[users]
    return Arm(_LEVELS[classes] + better + offsets + random.normal(0, 10, number), classes, users)


def _sides(random: np.random.Generator, spread: float, runs: tuple[int, int]) -> tuple[Arm, Arm]:
    """A is 3 points better at every task, and works on easier ones."""
    own = random.normal(0, spread, 12)
    return (
        _side(random, runs[0], [0.5, 0.3, 0.2], 3, own),
        _side(random, runs[1], [0.2, 0.3, 0.5], 0, own),
    )


def raw_difference(random: np.random.Generator) -> tuple[Difference, float]:
    # 3 + 0.3 * 80 - 0.3 * 70 = 6
    return difference(*_sides(random, 0, (40, 50)), clustered=False), 6.0


def adjusted(random: np.random.Generator) -> tuple[Difference, float]:
    return adjusted_difference(*_sides(random, 0, (30, 40)), clustered=False), 3.0


def raw_difference_by_user(random: np.random.Generator) -> tuple[Difference, float]:
    return difference(*_sides(random, 5, (60, 50)), clustered=True), 6.0


def adjusted_by_user(random: np.random.Generator) -> tuple[Difference, float]:
    return adjusted_difference(*_sides(random, 5, (60, 50)), clustered=True), 3.0


def adjusted_of_users_apart(random: np.random.Generator) -> tuple[Difference, float]:
    a, _ = _sides(random, 5, (60, 50))
    _, b = _sides(random, 5, (60, 50))
    apart = Arm(b.scores, b.classes, b.clusters + 12)
    return adjusted_difference(a, apart, clustered=True), 3.0


def probability_of_winning(random: np.random.Generator) -> tuple[Estimate, float]:
    # N(5, 10²) against N(0, 15²): Φ(5 / sqrt(325)) = Φ(0.27735) = 0.60925.
    a, b = random.normal(5, 10, 40), random.normal(0, 15, 40)
    alone = np.zeros(40, dtype=np.int64)
    sides = Arm(a, alone, np.arange(40)), Arm(b, alone, np.arange(40, 80))
    return superiority(*sides, clustered=False), 0.60925


def probability_of_winning_by_user(random: np.random.Generator) -> tuple[Estimate, float]:
    own, classes = random.normal(0, 5, 12), np.zeros(60, dtype=np.int64)
    users = [random.choice(12, 60) for _ in range(2)]
    a, b = (own[each] + random.normal(0, 10, 60) for each in users)
    sides = Arm(a + 5, classes, users[0]), Arm(b, classes, users[1])
    # Different users nearly always: Φ(5 / sqrt(250)) = Φ(0.31623) = 0.62409; the same user in one
    # of twelve pairs: Φ(5 / sqrt(200)) = 0.63816. 0.62409 + (0.63816 - 0.62409) / 12 = 0.62526.
    return superiority(*sides, clustered=True), 0.62526


def mean_corrected_by_people(random: np.random.Generator) -> tuple[Estimate, float]:
    """People find 62 on average; the judge is 8 too generous and not very exact."""
    people = random.normal(62, 12, 300)
    judge = people + 8 + random.normal(0, 6, 300)
    return corrected_mean(judge, Audit(range(40), list(people[:40]), 40)).corrected, 62.0


CASES: dict[Draw, float] = {
    mean_of_runs: 0.02,
    mean_of_skewed_costs: 0.03,
    mean_by_user: 0.02,
    share_of_runs: 0.03,
    share_by_user: 0.04,
    points_per_dollar: 0.03,
    points_per_dollar_by_user: 0.05,
    raw_difference: 0.02,
    adjusted: 0.03,
    raw_difference_by_user: 0.02,
    adjusted_by_user: 0.02,
    adjusted_of_users_apart: 0.03,
    probability_of_winning: 0.02,
    probability_of_winning_by_user: 0.02,
    mean_corrected_by_people: 0.02,
}
"""Interval -> how far its coverage may lie from 0.95 in the long run."""


def coverage(draw: Draw, samples: int) -> float:
    """Share of the samples whose interval holds the truth."""
    random = np.random.default_rng(2026)
    held = 0
    for _ in range(samples):
        found, truth = draw(random)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    return held / samples


@pytest.mark.parametrize("draw", CASES, ids=lambda draw: draw.__name__)
def test_an_interval_holds_the_truth_about_as_often_as_it_says(draw: Draw) -> None:
    # Four standard errors of 200 samples, sqrt(0.95 * 0.05 / 200) = 0.0154, and its tolerance.
    assert coverage(draw, SHORT) == pytest.approx(0.95, abs=0.062 + CASES[draw])


@pytest.mark.slow
@pytest.mark.parametrize("draw", CASES, ids=lambda draw: draw.__name__)
def test_an_interval_holds_the_truth_as_often_as_it_says_within_its_tolerance(draw: Draw) -> None:
    assert coverage(draw, LONG) == pytest.approx(0.95, abs=CASES[draw])


def test_errors_that_ignore_users_would_hold_it_far_too_seldom() -> None:
    def careless(random: np.random.Generator) -> tuple[Estimate, float]:
        users = _users(random)
        own = random.normal(0, 5, 12)
        return mean(70 + own[users] + random.normal(0, 10, len(users))), 70.0

    assert coverage(careless, SHORT) < 0.87


def test_a_judge_that_is_not_corrected_never_holds_it() -> None:
    def naive(random: np.random.Generator) -> tuple[Estimate, float]:
        people = random.normal(62, 12, 300)
        return mean(people + 8 + random.normal(0, 6, 300)), 62.0

    assert coverage(naive, SHORT) == 0
