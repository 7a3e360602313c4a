"""Figures with 95% intervals: quantiles, means and shares of runs whose people differ.

Shares have an effective number of runs and Wilson's interval.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
"""Confidence level of every interval."""


def t_quantile(freedom: float, alpha: float = 1 - LEVEL) -> float:
    """Return the ``1 - alpha / 2`` quantile of Student's t: by default the 97.5% one."""
    from scipy.special import stdtrit  # takes a while to import

    return float(stdtrit(freedom, 1 - alpha / 2))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    from scipy.special import ndtri  # a tenth of the time that scipy.stats takes

    return float(ndtri(probability))


def two_sided_p(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of ``value`` under Student's t."""
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(value) / error))


Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95% interval; None where it is unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def within(self, lowest: float, highest: float = float("inf")) -> "Estimate":
        """Return the estimate with its interval cut at possible values."""
        if self.low is None or self.high is None:
            return self
        return Estimate(self.value, max(self.low, lowest), min(self.high, highest))


UNKNOWN = Estimate()


def sums_by(codes: Codes, values: Numbers) -> Numbers:
    """Return the sum of the values of each cluster; clusters are numbered from 0."""
    return np.bincount(codes, weights=values).astype(np.float64)


def ranks(values: Numbers) -> Numbers:
    """Return the rank of each value, from 1; equal ones share the mean of theirs."""
    # As ``scipy.stats.rankdata`` does: that module takes longer to load than most commands run.
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[codes])


def mean(values: Numbers) -> Estimate:
    """Return the mean of independent values with Student's interval."""
    if len(values) == 0:
        return UNKNOWN
    center = float(values.mean())
    if len(values) < 2:
        return Estimate(center)
    half = t_quantile(len(values) - 1) * float(values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(center, center - half, center + half)


SMALLEST_CORRELATION = 0.05
"""Runs of one person correlate at least this much, whatever the data show: a share
close to 0 or 1 says next to nothing about it, and 57 of 57 must not be wider than 56 of 57."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of runs.

    Attributes:
        value: The share, 0-1.
        number: Effective number of independent runs.
        freedom: Degrees of freedom.
    """

    value: float
    number: float
    freedom: float

    def ends(self, alpha: float = 1 - LEVEL) -> tuple[float, float]:
        """Return Wilson's interval with the effective number of runs and Student's t.

        Korn and Graubard, "Confidence intervals for proportions with small expected number of
        positive counts estimated from survey data", 1998.
        """
        z = t_quantile(self.freedom, alpha)
        value, number = self.value, self.number
        middle = (value + z**2 / (2 * number)) / (1 + z**2 / number)
        spread = math.sqrt(value * (1 - value) / number + (z / number) ** 2 / 4)
        half = z / (1 + z**2 / number) * spread
        # Rounding must not separate an end from its share of 0 or 1.
        return min(max(middle - half, 0.0), value), max(min(middle + half, 1.0), value)


def share_of(hits: Numbers, people: Codes, *, alike: bool = False) -> Share | None:
    """Return the share of ones among zeros and ones; None for fewer than two people.

    Args:
        hits: 0 or 1 for each run.
        people: Person of each run.
        alike: Let people weigh the same; otherwise every run does.
    """
    if not alike:
        return weighted_share(hits, people, np.ones(len(hits)))
    _, codes, sizes = np.unique(people, return_inverse=True, return_counts=True)
    return weighted_share(hits, people, 1 / sizes[codes])


def weighted_share(hits: Numbers, people: Codes, weights: Numbers) -> Share | None:
    """Return the weighted share of ones among zeros and ones; None for fewer than two people."""
    _, codes, sizes = np.unique(people, return_inverse=True, return_counts=True)
    groups = len(sizes)
    if groups < 2:
        return None
    of_people = np.bincount(codes, weights=weights)
    # Runs of equal weight whose mean has the variance of the person's weighted mean.
    equal = of_people**2 / np.bincount(codes, weights=weights**2)
    shares = of_people / of_people.sum()
    alike_by = correlation(np.bincount(codes, weights=hits) / sizes, sizes)
    number = effective_number(shares, equal, alike_by)
    freedom = _freedom(number * alike_by * float(shares @ shares), groups, len(hits))
    means = np.bincount(codes, weights=weights * hits) / of_people
    return Share(float(shares @ means), number, freedom)


def share(hits: Numbers, people: Codes) -> Estimate:
    """Return the share of ones among zeros and ones with its 95% interval."""
    if len(hits) == 0:
        return UNKNOWN
    found = share_of(hits, people)
    return Estimate(float(hits.mean())) if found is None else Estimate(found.value, *found.ends())


def effective_number(weights: Numbers, sizes: Numbers | Codes, correlation: float) -> float:
    """Return the number of independent runs with the variance of a weighted mean of people.

    A person's mean of n runs has ``correlation + (1 - correlation) / n`` of the variance of a run;
    with weights by runs this is Kish's ``n / (1 + (m - 1) * correlation)`` (Survey Sampling, 1965).
    """
    return float(1 / np.sum(weights**2 * (correlation + (1 - correlation) / sizes)))


def _freedom(between: float, groups: int, runs: int) -> float:
    """Return Satterthwaite's degrees of freedom of a variance ("Synthesis of variance", 1941).

    Args:
        between: Share of the variance that is due to differences of people.
        groups: Number of people.
        runs: Number of runs.
    """
    if runs == groups:  # one run each: both variances are estimated as one
        return groups - 1
    within = (1 - between) ** 2 / (runs - groups)
    return 1 / (between**2 / (groups - 1) + within)


def correlation(means: Numbers, sizes: Codes) -> float:
    """Return the correlation of a person's runs, at least ``SMALLEST_CORRELATION``.

    The analysis of variance estimator (Ridout, Demetrio and Firth, "Estimating intraclass
    correlation for binary data", 1999): ``(MSB - MSW) / (MSB + (n0 - 1) MSW)``.

    Args:
        means: Share of ones of each person.
        sizes: Number of runs of each person.
    """
    groups, total = len(sizes), int(sizes.sum())
    if total <= groups:
        return SMALLEST_CORRELATION
    overall = float(sizes @ means) / total
    between = float(sizes @ (means - overall) ** 2) / (groups - 1)
    within = float(sizes @ (means * (1 - means))) / (total - groups)
    usual_size = (total - float(sizes @ sizes) / total) / (groups - 1)
    spread = between + (usual_size - 1) * within
    if spread <= 0:
        return SMALLEST_CORRELATION
    return min(max((between - within) / spread, SMALLEST_CORRELATION), 1.0)
