"""How much days and runs vary where nothing changed."""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.numerics.estimates import Codes, Numbers

WEEK = 7
_FEWEST_WITHIN = 10
"""With fewer degrees of freedom within days, runs are taken to vary like days."""


@dataclass(frozen=True, slots=True)
class DaySpread:
    """Variances of errors of runs; days are clusters.

    Attributes:
        within: Variance of runs of the same day.
        between: Variance that the runs of a day have in common.
        by_week: How many times as much weeks vary as independent days would, at least 1.
        freedom: Degrees of freedom.
    """

    within: float
    between: float
    by_week: float
    freedom: int

    @classmethod
    def of(cls, errors: Numbers, days: Codes, end: int, parameters: float) -> "DaySpread":
        """Estimate the variances by moments (analysis of variance with unequal numbers).

        Args:
            errors: Of each run, in points; about 0 on average.
            days: Day of each run.
            end: The day after the last one.
            parameters: Number of parameters that were estimated from these runs.
        """
        since = int(days.min())
        counts = np.bincount(days - since, minlength=end - since).astype(np.float64)
        sums = np.bincount(days - since, errors, minlength=end - since).astype(np.float64)
        used = counts > 0
        number, total = len(errors), float(errors @ errors)
        among = float(np.sum(sums[used] ** 2 / counts[used]))
        freedom = int(used.sum()) - 1
        inside = number - freedom - parameters
        if inside < _FEWEST_WITHIN:
            within, between = total / max(number - parameters, 1.0), 0.0
        else:
            within = (total - among) / inside
            usual = number - float(counts @ counts) / number
            between = max(0.0, (among - freedom * within) / usual)
        by_week = _by_week(counts, sums, within, between)
        return cls(within, between, by_week, freedom)

    def of_mean(self, days: Codes) -> float:
        """Return the variance of the mean of runs of some days."""
        counts = np.bincount(days - int(days.min()))
        number = len(days)
        common = self.between * float(counts @ counts) / number**2
        return self.by_week * (common + self.within / number)

    def of_days(self, weights: Numbers, days: Codes) -> float:
        """Return the variance that days add to a weighted sum of runs."""
        by_day = np.bincount(days - int(days.min()), weights)
        return self.by_week * self.between * float(by_day @ by_day)


def _by_week(counts: Numbers, sums: Numbers, within: float, between: float) -> float:
    """Return the variance of sums of 7 days in a row over what independent days would give.

    Overlapping blocks are the estimate of Newey and West (1987) with 6 lags; the errors add up to
    0, which takes a week's share of the days from the variance.
    """
    blocks = len(counts) - WEEK + 1
    expected = float(np.sum(_sums_of_weeks(between * counts**2 + within * counts)))
    if blocks < 2 or expected <= 0:
        return 1.0
    found = float(np.sum(_sums_of_weeks(sums) ** 2))
    return max(1.0, found / expected * len(counts) / (len(counts) - WEEK))


def _sums_of_weeks(values: Numbers) -> Numbers:
    whole = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(whole[WEEK:] - whole[:-WEEK])
