"""Means, shares and ratios with 95 % intervals.

Runs of one user are alike: forty runs of four users say less than forty runs of forty. With enough
users, whole clusters (all runs of one user) are left out or drawn; otherwise single runs are, as
if they were independent.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
SMALLEST_FOR_RATIO = 10
"""With fewer units a bootstrap knows nothing about the tails."""

_RESAMPLES = 2_000
_BLOCKS = 1_000

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; None where it is unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def within(self, lowest: float, highest: float = float("inf")) -> "Estimate":
        """Return the estimate with its interval cut at possible values."""
        if self.low is None or self.high is None:
            return self
        return Estimate(self.value, max(self.low, lowest), min(self.high, highest))


UNKNOWN = Estimate()


def t_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t."""
    from scipy.stats import t  # takes a while to import

    return float(t.ppf((1 + LEVEL) / 2, freedom))


def two_sided_p(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of ``value`` under Student's t."""
    from scipy.stats import t

    return float(2 * t.sf(abs(value) / error, freedom))


def sums_by(codes: Codes, values: Numbers) -> Numbers:
    """Return the sum of the values of each cluster; clusters are numbered from 0."""
    return np.bincount(codes, weights=values).astype(np.float64)


def jackknife_error(without: Numbers) -> float:
    """Return the standard error from the estimates that leave out one cluster each.

    ``sqrt((G - 1) / G * sum((each - their mean)²))`` (Tukey; as the cluster-robust variance CV3 in
    MacKinnon, Nielsen and Webb, "Fast and reliable jackknife and bootstrap methods for
    cluster-robust inference", 2023, to be used with Student's t of G - 1 degrees of freedom).
    """
    groups = len(without)
    return float(np.sqrt((groups - 1) / groups * np.sum((without - without.mean()) ** 2)))


def mean(values: Numbers, clusters: Codes | None = None) -> Estimate:
    """Return the mean with Student's interval; clusters, if given, determine its error."""
    if len(values) == 0:
        return UNKNOWN
    center = float(values.mean())
    error, freedom = error_of_mean(values, clusters)
    if freedom < 1:
        return Estimate(center)
    half = t_quantile(freedom) * error
    return Estimate(center, center - half, center + half)


def error_of_mean(values: Numbers, clusters: Codes | None) -> tuple[float, int]:
    """Return the standard error of a mean and its degrees of freedom (0 if unknown)."""
    if clusters is None:
        number = len(values)
        return (float(values.std(ddof=1) / np.sqrt(number)) if number > 1 else 0.0), number - 1
    sums, counts = sums_by(clusters, values), sums_by(clusters, np.ones(len(values)))
    if len(sums) < 2:
        return 0.0, 0
    without = (sums.sum() - sums) / (counts.sum() - counts)
    return jackknife_error(without), len(sums) - 1


def share(hits: Numbers, clusters: Codes | None = None) -> Estimate:
    """Return the share of ones among zeros and ones with Wilson's interval.

    Clusters count as the number of independent runs with the same error (effective sample size:
    Korn and Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", 1998), or as their own number if all values are equal.
    """
    if len(hits) == 0:
        return UNKNOWN
    value, number = float(hits.mean()), float(len(hits))
    if clusters is not None:
        error, freedom = error_of_mean(hits, clusters)
        alike = error == 0
        number = freedom + 1.0 if alike else min(number, value * (1 - value) / error**2)
    z = t_quantile(max(number - 1, 1)) if clusters is not None else t_quantile(np.inf)
    middle = (value + z**2 / (2 * number)) / (1 + z**2 / number)
    half = z / (1 + z**2 / number) * np.sqrt(value * (1 - value) / number + (z / number) ** 2 / 4)
    return Estimate(value, max(middle - float(half), 0.0), min(middle + float(half), 1.0))


def ratio(above: Numbers, below: Numbers, clusters: Codes | None, seed: int) -> Estimate:
    """Return mean ``above`` / mean of the known ``below`` with a BCa bootstrap interval.

    Bias-corrected and accelerated (Efron, "Better bootstrap confidence intervals", 1987), as
    scipy does it, by drawing whole clusters. Null if the mean below is 0 or unknown. The level
    is that of Student's t (Hesterberg, "What teachers should know about the bootstrap", 2015):
    with a dozen clusters the plain one covers 89 %, not 95.

    Args:
        above: One value per run.
        below: One value per run, NaN if unknown.
        clusters: Cluster of each run; None for single runs.
        seed: The same seed gives the same interval.
    """
    known = ~np.isnan(below)
    if not known.any() or below[known].mean() <= 0:
        return UNKNOWN
    value = float(above.mean() / below[known].mean())
    units = _units(len(above), seed) if clusters is None else clusters
    parts = (
        sums_by(units, above),
        sums_by(units, np.ones(len(above))),
        sums_by(units, np.where(known, below, 0.0)),
        sums_by(units, known.astype(np.float64)),
    )
    low, high = _bca(parts, seed)
    return Estimate(value, low, high)


def _units(number: int, seed: int) -> Codes:
    """Return the units to draw from independent runs: runs, or random blocks of very many."""
    codes = np.arange(number) % _BLOCKS
    return np.random.default_rng(seed).permutation(codes) if number > _BLOCKS else codes


def _bca(
    parts: tuple[Numbers, Numbers, Numbers, Numbers], seed: int
) -> tuple[float, float] | tuple[None, None]:
    from scipy.stats import DegenerateDataWarning, bootstrap

    above, runs, below, known = parts
    told = known > 0
    if len(above) < SMALLEST_FOR_RATIO or _is_constant(above / runs, below[told] / known[told]):
        return None, None

    def statistic(a: Numbers, n: Numbers, b: Numbers, m: Numbers, axis: int = -1) -> Numbers:
        found: Numbers = (a.sum(axis) / n.sum(axis)) / (b.sum(axis) / m.sum(axis))
        return found

    # A degenerate sample returns an interval without ends.
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        result = bootstrap(
            parts,
            statistic,
            n_resamples=_RESAMPLES,
            batch=100,
            vectorized=True,
            paired=True,
            confidence_level=_expanded_level(len(above)),
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    low, high = float(result.low), float(result.high)
    return (low, high) if np.isfinite(low) and np.isfinite(high) else (None, None)


def _expanded_level(units: int) -> float:
    """Return the normal level as wide as that of t, with small-sample bias removed."""
    from scipy.stats import norm

    wide = t_quantile(units - 1) * np.sqrt(units / (units - 1))
    return float(1 - 2 * norm.sf(wide))


def _is_constant(*each: Numbers) -> bool:
    return all(bool(np.ptp(values) == 0) for values in each)
