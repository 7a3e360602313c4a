"""Means of skewed amounts, such as costs, tokens and durations, with 95% intervals."""

import numpy as np

from evaluation_pipelines.numerics.estimates import (
    LEVEL,
    UNKNOWN,
    Codes,
    Estimate,
    Numbers,
    sums_by,
    t_quantile,
)

SMALLEST_SURE = 100
"""An interval from fewer runs is called rough: it may miss rare, very expensive ones."""

SMALLEST_BOOTSTRAP = 10

SMALLEST_CORRELATION = 3
"""With fewer clusters a correlation is always 1 or -1."""

_LOOKS_NORMAL = 0.05
_RESAMPLES = 1_000
_ROUNDING = 1e-9

_LARGEST_RATIO = 1e6
"""Beyond this multiple of the mean, an end says nothing: there is no interval."""


def skewed_mean(values: Numbers, clusters: Codes, seed: int) -> Estimate:
    """Return the mean of non-negative amounts.

    If the logarithms look normal (Shapiro and Wilk's test), the interval is modified Cox (Olsson,
    "Confidence intervals for the mean of a log-normal distribution", 2005), else bootstrap-t
    (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 12). All runs of a
    cluster vary together. A bootstrap of few clusters knows nothing about the tails: there
    Student's t on the amounts is used. Clusters with the same mean show no error to draw from:
    there is no interval.

    Args:
        values: One per run.
        clusters: Cluster of each run.
        seed: The same seed gives the same interval.
    """
    if len(values) == 0:
        return UNKNOWN
    value = float(values.mean())
    _, codes = np.unique(clusters, return_inverse=True)
    if codes.max() < 1 or np.ptp(values) == 0:
        return Estimate(value)
    error, freedom = _standard_error(values, codes)
    if _is_lognormal(values):
        low, high = _cox(values, codes)
    elif error < _ROUNDING * value:
        return Estimate(value)
    elif codes.max() + 1 >= SMALLEST_BOOTSTRAP:
        low, high = _bootstrap(values, codes, seed)
    else:
        half = t_quantile(freedom) * error
        low, high = value - half, value + half
    if high > _LARGEST_RATIO * value:
        return Estimate(value)
    return Estimate(value, max(min(low, value), 0.0), max(high, value))


def _is_lognormal(values: Numbers) -> bool:
    if len(values) < 3 or values.min() <= 0:
        return False
    from scipy.stats import shapiro

    logs = np.log(values)
    # Shapiro's p-value is not exact above 5000 values; an even sample of them is enough.
    step = -(-len(logs) // 5000)
    return bool(np.ptp(logs) > 0 and shapiro(np.sort(logs)[::step]).pvalue > _LOOKS_NORMAL)


def _cox(values: Numbers, codes: Codes) -> tuple[float, float]:
    """Return the interval ``exp(m + s²/2 ± t * error)`` of a lognormal mean.

    Olsson's error is ``sqrt(s²/n + s⁴/(2(n - 1)))``; the error of m is that of clusters.
    """
    logs = np.log(values)
    number, variance = len(logs), float(logs.var(ddof=1))
    error, freedom = _standard_error(logs, codes)
    half = t_quantile(freedom) * float(np.sqrt(error**2 + variance**2 / (2 * (number - 1))))
    center = float(logs.mean()) + variance / 2
    with np.errstate(over="ignore"):
        return float(np.exp(center - half)), float(np.exp(center + half))


def _standard_error(values: Numbers, codes: Codes) -> tuple[float, float]:
    """Return the standard error of the mean of all runs, and its degrees of freedom.

    The degrees are those of as many clusters of equal size as weigh the same.
    """
    sizes = np.bincount(codes)
    sums = sums_by(codes, values - values.mean())
    groups = len(sizes)
    equal = float(sizes.sum()) ** 2 / float(sizes @ sizes)
    error = float(np.sqrt(groups / (groups - 1) * (sums @ sums))) / len(values)
    return error, max(equal - 1, 1.0)


def _bootstrap(values: Numbers, codes: Codes, seed: int) -> tuple[float, float]:
    """Return the bootstrap-t interval from draws of whole clusters."""
    random = np.random.default_rng(seed)
    sizes, sums = np.bincount(codes).astype(np.float64), sums_by(codes, values)
    groups, value = len(sizes), float(values.mean())
    statistics = []
    for _ in range(-(-_RESAMPLES * groups // 1_000_000)):
        drawn = random.integers(0, groups, (min(_RESAMPLES, max(1_000_000 // groups, 1)), groups))
        statistics.append(_t_statistics(sums[drawn], sizes[drawn], value))
    found = np.concatenate(statistics)
    known = found[np.isfinite(found)]
    error = float(_ratio_error(sums[None, :], sizes[None, :])[0])
    tail = (1 - LEVEL) / 2
    lowest, highest = np.quantile(known, [tail, 1 - tail])
    return value - float(highest) * error, value - float(lowest) * error


def _t_statistics(sums: Numbers, sizes: Numbers, value: float) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums.sum(axis=1) / sizes.sum(axis=1)
        return np.asarray((means - value) / _ratio_error(sums, sizes))


def _ratio_error(sums: Numbers, sizes: Numbers) -> Numbers:
    """Return the standard error of each mean, from what its clusters add to it."""
    groups, runs = sizes.shape[1], sizes.sum(axis=1, keepdims=True)
    left = sums - sums.sum(axis=1, keepdims=True) / runs * sizes
    return np.asarray(np.sqrt(groups / (groups - 1) * (left**2).sum(axis=1)) / runs[:, 0])


def quotient(above: Estimate, below: Estimate, correlation: float = 0.0) -> Estimate:
    """Return ``above / below`` for estimates above 0, with an interval from both of theirs.

    MOVER on the logarithms (Zou and Donner, "Construction of confidence limits about effect
    measures: a general approach", 2008) with the term for dependent estimates (Zou, "Toward using
    confidence intervals to compare correlations", 2007); unknown if ``below`` is 0 or unknown.

    Args:
        above: The numerator.
        below: The denominator.
        correlation: Correlation of the errors of both.
    """
    if above.value is None or below.value is None or below.value <= 0:
        return UNKNOWN
    value = above.value / below.value
    ends = (above.low, above.high, below.low, below.high)
    if value <= 0 or any(end is None or end <= 0 for end in ends):
        return Estimate(value)
    low_a, high_a, low_b, high_b = (float(np.log(end)) for end in ends if end is not None)
    a, b = float(np.log(above.value)), float(np.log(below.value))
    down = _joined(a - low_a, high_b - b, correlation)
    up = _joined(high_a - a, b - low_b, correlation)
    return Estimate(value, float(np.exp(a - b - down)), float(np.exp(a - b + up)))


def _joined(first: float, second: float, correlation: float) -> float:
    """Return the half-width of a difference from those of its parts."""
    square = first**2 + second**2 - 2 * correlation * first * second
    return float(np.sqrt(max(square, 0.0)))


def means_correlation(alike: Numbers, by_run: Numbers, clusters: Codes) -> float:
    """Return the correlation of the errors of two means over the same runs; 0 if it is unknown.

    It is that of what both means become without each of the clusters.

    Args:
        alike: Values of the first mean, in which clusters weigh the same.
        by_run: Values of the second mean, in which runs weigh the same.
        clusters: Cluster of each run.
    """
    _, codes, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    if len(sizes) < SMALLEST_CORRELATION:
        return 0.0
    means = sums_by(codes, alike) / sizes
    first = (means.sum() - means) / (len(sizes) - 1)
    second = (by_run.sum() - sums_by(codes, by_run)) / (len(by_run) - sizes)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
