"""Verdicts on differences and on "not worse": at most 5% of reports claim a false one.

Whether a model is not worse than another by more than a margin is a test of non-inferiority
(Piaggio and others, "Reporting of noninferiority and equivalence randomized trials", 2012) on the
difference that the verdict on quality rests on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation_pipelines.comparison.domain.differences import Difference
from evaluation_pipelines.comparison.domain.models import Row, group_of, model_of
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.numerics.estimates import Numbers, normal_quantile, ranks

ALPHA = 0.05

NOT_EQUAL = "Not decided means too little data, not that they are equal."

HEADLINES = 0.5
"""Share of the 5% for "X beats every other"; the rest is for single pairs."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Result of a test among others.

    Attributes:
        p: Corrected p-value: below 0.05 something is shown.
        level: What Holm's method compares the uncorrected p-value with. The interval of this level
            excludes "no difference" exactly where something is shown.
    """

    p: float
    level: float


def corrected(pairs: Sequence[Row]) -> list[Corrected]:
    """Return the corrected test of each pair: below 0.05 the better model is decided.

    Two families share the error: for each group "one model beats every other" (intersection-union:
    Berger, "Multiparameter hypothesis testing and acceptance sampling", 1982: the largest p-value
    of the model's pairs), and all pairs. They are tested together by Holm's method with weights
    ("A simple sequentially rejective multiple test procedure", 1979), each family with half of
    them. With two models both ask the same, so that the pair has the weights of both.

    Args:
        pairs: All pairs that are tested in a report: ``adjusted_difference`` and ``adjusted_p`` of
            two models of a group.
    """
    if not pairs:
        return []
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        groups.setdefault(group_of(pair), []).append(place)
    headlines = [_headline(pairs, places) for places in groups.values() if len(places) > 1]
    share = HEADLINES / len(groups)
    weights = np.full(len(pairs), (1 - HEADLINES) / len(pairs))
    for places in groups.values():
        if len(places) == 1:
            weights[places[0]] += share
    found = weighted_holm(
        [*(pair["adjusted_p"] for pair in pairs), *(p for p, _ in headlines)],
        [*weights, *np.full(len(headlines), share)],
    )
    for (_, places), whole in zip(headlines, found[len(pairs) :], strict=True):
        for place in places:
            alone = found[place]
            # A headline that is not shown helps no pair.
            level = max(alone.level, whole.level) if whole.p < ALPHA else alone.level
            found[place] = Corrected(min(alone.p, whole.p), level)
    return found[: len(pairs)]


def _headline(pairs: Sequence[Row], places: Sequence[int]) -> tuple[float, list[int]]:
    """Return the p-value of the claim that a model beats every other of its group, and its pairs.

    1 if no model is ahead of every other.
    """
    models = {model_of(pairs[place], side) for place in places for side in ("_a", "_b")}
    for model in models:
        own = [
            place
            for place in places
            if model_of(pairs[place], "_a" if pairs[place]["adjusted_difference"] > 0 else "_b")
            == model
        ]
        if len(own) == len(models) - 1:
            return max(pairs[place]["adjusted_p"] for place in own), own
    return 1.0, []


def weighted_holm(
    p_values: Sequence[float], weights: Sequence[float], alpha: float = ALPHA
) -> list[Corrected]:
    """Return tests corrected by Holm's method; hypotheses of more weight are corrected less."""
    if not p_values:
        return []
    p, weight = np.array(p_values), np.array(weights)
    order = np.argsort(p / weight, kind="stable")
    left = np.cumsum(weight[order][::-1])[::-1]
    steps = np.maximum.accumulate(p[order] / weight[order] * left)
    # Where Holm's method stops, the rest is compared as it would be at this step.
    last = int(np.searchsorted(steps, alpha))
    at_step = left[np.minimum(np.arange(len(left)), last)]
    levels = alpha * weight[order] / at_step
    places = np.argsort(order)
    return [Corrected(min(float(steps[at]), 1.0), float(levels[at])) for at in places]


def holm(p_values: Sequence[float | None]) -> list[Corrected | None]:
    """Return tests corrected by Holm's method with equal weights; unknown ones stay unknown."""
    known = [p for p in p_values if p is not None]
    found = iter(weighted_holm(known, [1.0] * len(known)))
    return [None if p is None else next(found) for p in p_values]


RELEVANT_POINTS = 5.0
"""Smallest relevant difference: 5% of the scale of 0-100."""

POWER = 0.8


def hedges_g(first: Numbers, second: Numbers) -> float | None:
    """Return the difference of the means in pooled standard deviations, unbiased.

    Hedges, "Distribution theory for Glass's estimator of effect size and related estimators",
    1981: ``g = J * (mean - mean) / s``, ``J = Γ(m/2) / (sqrt(m/2) Γ((m-1)/2))``, m = n1 + n2 - 2.
    None without any variance.
    """
    freedom = len(first) + len(second) - 2
    if freedom < 2:
        return None
    squares = sum(float(np.sum((scores - scores.mean()) ** 2)) for scores in (first, second))
    if squares < 1e-12:
        return None
    log_j = math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) - math.log(freedom / 2) / 2
    return math.exp(log_j) * float(first.mean() - second.mean()) / math.sqrt(squares / freedom)


def superiority(first: Numbers, second: Numbers) -> float:
    """Return the probability that a random run of the first beats one of the second.

    Ties count half: Mann and Whitney's U over the number of pairs ("On a test of whether one of
    two random variables is stochastically larger than the other", 1947).
    """
    above = (
        float(ranks(np.concatenate([first, second]))[: len(first)].sum())
        - len(first) * (len(first) + 1) / 2
    )
    return above / (len(first) * len(second))


def runs_needed(first: Numbers, second: Numbers, design_effect: float, tests: int) -> int | None:
    """Return the runs per side that show a difference of 5% of the scale in 4 of 5 comparisons.

    None for fewer than 2 runs, or without any variance: there is nothing to estimate it from.

    ``(z(1 - alpha/2m) + z(power))² * (s1² + s2²) / points² * design effect``, and a quarter of the
    squared quantile for Student's t (Guenther, "Sample size formulas for normal theory t tests",
    1981). m is the number of comparisons: Holm's first step requires the most.

    Args:
        first: Scores of one side.
        second: Scores of the other.
        design_effect: Variance of the difference as a multiple of that of independent runs.
        tests: Number of comparisons made together.
    """
    if min(len(first), len(second)) < 2:
        return None
    z = normal_quantile(1 - ALPHA / (2 * tests))
    spread = float(first.var(ddof=1) + second.var(ddof=1))
    if spread < 1e-12:
        return None
    needed = (z + normal_quantile(POWER)) ** 2 * spread / RELEVANT_POINTS**2 * design_effect
    return max(math.ceil(needed + z**2 / 4), 2)


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
    of_runs = min(_run_variance(first) + _run_variance(second), found.error**2)
    people = len(first.known_people)
    if not found.is_paired:
        people += len(second.known_people)
    return Precision(of_runs, found.error**2 - of_runs, people)


def _run_variance(side: Arm) -> float:
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
    z = normal_quantile(1 - ALPHA / tests) + normal_quantile(POWER)
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
