"""Whether one of two models is shown to be not worse than the other by more than a margin.

A test of non-inferiority (Piaggio and others, "Reporting of noninferiority and equivalence
randomized trials", 2012) on the difference that the verdict on quality rests on.
"""

import math
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.differences import Difference
from evaluation_pipelines.comparison.domain.effects import POWER
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.verdicts import ALPHA
from evaluation_pipelines.numerics.estimates import Numbers

LARGEST_FACTOR = 20
"""If more than this number of times as many runs are needed, runs are not the way."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What the variance of a difference is made of.

    Attributes:
        of_runs: The part that more runs of the same people reduce.
        of_people: The part that only more people reduce.
        people: Number of people whose runs are compared.
    """

    of_runs: float
    of_people: float
    people: int


def precision(first: Arm, second: Arm, found: Difference) -> Precision | None:
    """Return what the variance of a difference is made of; None where it has no error.

    Args:
        first: Runs of one model that are compared.
        second: Those of the other.
        found: Their difference.
    """
    if found.error is None:
        return None
    of_runs = min(_of_runs(first) + _of_runs(second), found.error**2)
    people = len(first.known_people)
    if not found.is_paired:
        people += len(second.known_people)
    return Precision(of_runs, found.error**2 - of_runs, people)


def _of_runs(side: Arm) -> float:
    """Return the variance that the runs of its people give to the mean of people's means."""
    _, codes, sizes = np.unique(side.people, return_inverse=True, return_counts=True)
    freedom = len(side) - len(sizes)
    if freedom < 1:
        return 0.0
    means: Numbers = np.bincount(codes, weights=side.scores) / sizes
    within = float(np.sum((side.scores - means[codes]) ** 2)) / freedom
    return within * float(np.sum(1 / sizes)) / len(sizes) ** 2


@dataclass(frozen=True, slots=True)
class Needed:
    """What would show in 4 of 5 comparisons that equal models are not worse.

    Attributes:
        runs: Times as many runs by the same people; None if no number of them is enough.
        people: Number of people like these.
    """

    runs: float | None
    people: int


def needed(of_pair: Precision, margin: float, tests: int) -> Needed:
    """Return how much it takes to show that a model is not worse than an equal one.

    The error must be ``margin / (z(1 - 0.05 / m) + z(0.8))`` or less (Julious, "Sample sizes for
    clinical trials with normal data", 2004).

    Args:
        of_pair: What the variance of the difference is made of.
        margin: Points.
        tests: Number of models that are tested together, m.
    """
    from scipy.stats import norm

    z = float(norm.ppf(1 - ALPHA / tests) + norm.ppf(POWER))
    target = (margin / z) ** 2
    people = math.ceil(of_pair.people * (of_pair.of_runs + of_pair.of_people) / target)
    left = target - of_pair.of_people
    factor = of_pair.of_runs / left if left > 0 else math.inf
    return Needed(factor if factor <= LARGEST_FACTOR else None, people)


def more_runs(first: int, second: int, factor: float) -> int:
    """Return how many further runs of each side do what ``factor`` times as many of both would.

    The n that solves ``1/(a + n) + 1/(b + n) = (1/a + 1/b) / factor``; 0 if nothing is missing.
    """
    if factor <= 1:
        return 0
    target = (1 / first + 1 / second) / factor
    linear = target * (first + second) - 2
    constant = target * first * second - (first + second)
    root = (-linear + math.sqrt(linear**2 - 4 * target * constant)) / (2 * target)
    return math.ceil(root - 1e-9)
