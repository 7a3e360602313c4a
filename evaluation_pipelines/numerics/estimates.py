"""Figures with 95% intervals.

Quantiles and tails of Student's t, and quantiles of the normal distribution.
"""

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
