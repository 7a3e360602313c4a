"""Effect sizes, required numbers of runs, and correction for many comparisons."""

import math

import numpy as np

from evaluation_pipelines.comparison.domain.differences import Arm
from evaluation_pipelines.numerics.estimates import Estimate, Numbers, t_quantile

RELEVANT_POINTS = 5.0
"""Smallest relevant difference: 5 % of the scale of 0-100."""

POWER = 0.8
ALPHA = 0.05


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


def superiority(first: Arm, second: Arm, *, clustered: bool) -> Estimate:
    """Return the probability that a random run of the first beats one of the second.

    Ties count half. The relative effect of Brunner and Munzel, "The nonparametric Behrens-Fisher
    problem", 2000 (Mann and Whitney's U over the pairs), with their interval. With clusters, the
    placements are summed by cluster: Obuchowski, "Nonparametric analysis of clustered ROC curve
    data", 1997.
    """
    above, below = _placements(first.scores, second.scores)
    value = float(above.mean())
    if min(len(above), len(below)) < 2:
        return Estimate(value)
    spread = (_clustered_spread if clustered else _spread)(first, second, above, below)
    if spread is None:
        return Estimate(value)
    error, freedom = spread
    half = t_quantile(freedom) * error
    return Estimate(value, max(value - half, 0.0), min(value + half, 1.0))


def _placements(first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """Return the share of the other side that each run beats (first) or loses to (second)."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([first, second]))
    above = (ranks[: len(first)] - rankdata(first)) / len(second)
    below = 1 - (ranks[len(first) :] - rankdata(second)) / len(first)
    return above, below


def _spread(
    _first: Arm, _second: Arm, above: Numbers, below: Numbers
) -> tuple[float, float] | None:
    """Return standard error and degrees of freedom (Satterthwaite's) of independent runs."""
    parts = [float(each.var(ddof=1)) / len(each) for each in (above, below)]
    if sum(parts) < 1e-15:
        return None
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(each) - 1) for part, each in zip(parts, (above, below), strict=True)
    )
    return math.sqrt(sum(parts)), freedom


def _clustered_spread(
    first: Arm, second: Arm, above: Numbers, below: Numbers
) -> tuple[float, float] | None:
    clusters = np.concatenate([first.clusters, second.clusters])
    parts = np.concatenate(
        [(above - above.mean()) / len(above), (below - below.mean()) / len(below)]
    )
    _, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=parts)
    groups = min(first.cluster_count, second.cluster_count)
    error = math.sqrt(groups / (groups - 1) * float(np.sum(sums**2)))
    return (error, groups - 1) if error > 1e-9 else None


def runs_needed(first: Numbers, second: Numbers, design_effect: float, tests: int) -> int | None:
    """Return the runs per side that show a difference of 5 % of the scale in 4 of 5 comparisons.

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
    needed = (z + float(norm.ppf(POWER))) ** 2 * spread / RELEVANT_POINTS**2 * design_effect
    return max(math.ceil(needed + z**2 / 4), 2)


def holm(p_values: list[float | None]) -> list[float | None]:
    """Return p-values corrected for many comparisons; unknown ones stay unknown.

    Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min((len(known) - rank) * p, 1.0))
        corrected[place] = largest
    return corrected
