"""Effect sizes and required numbers of runs."""

import math

import numpy as np

from evaluation_pipelines.comparison.domain.verdicts import ALPHA
from evaluation_pipelines.numerics.estimates import Numbers

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
    squares = sum(float(np.sum((each - each.mean()) ** 2)) for each in (first, second))
    if squares < 1e-12:
        return None
    log_j = math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) - math.log(freedom / 2) / 2
    return math.exp(log_j) * float(first.mean() - second.mean()) / math.sqrt(squares / freedom)


def superiority(first: Numbers, second: Numbers) -> float:
    """Return the probability that a random run of the first beats one of the second.

    Ties count half: Mann and Whitney's U over the number of pairs ("On a test of whether one of
    two random variables is stochastically larger than the other", 1947).
    """
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([first, second]))[: len(first)]
    above = float(ranks.sum()) - len(first) * (len(first) + 1) / 2
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
    from scipy.stats import norm

    z = float(norm.ppf(1 - ALPHA / (2 * tests)))
    spread = float(first.var(ddof=1) + second.var(ddof=1))
    if spread < 1e-12:
        return None
    needed = (z + float(norm.ppf(POWER))) ** 2 * spread / RELEVANT_POINTS**2 * design_effect
    return max(math.ceil(needed + z**2 / 4), 2)
