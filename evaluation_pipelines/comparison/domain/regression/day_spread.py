"""How much days and runs vary where nothing changed."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from evaluation_pipelines.comparison.domain.regression.expected_scores import ExpectedScores
from evaluation_pipelines.numerics.estimates import Codes, Numbers

WEEK = 7
_FEWEST_WITHIN = 10.0
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
    def of(cls, expected: ExpectedScores) -> "DaySpread":
        """Estimate the variances from scores less expected scores.

        Sums of squares are set equal to what they are on average (Searle, Casella and McCulloch,
        "Variance components", 1992): estimated levels take a part of the variance, and people who
        come and go take most from weeks.

        Args:
            expected: Levels that were estimated from the runs.
        """
        runs = expected.runs
        errors, since = runs.scores - expected.of_runs(runs), int(runs.days.min())
        days = _Days.of(expected)
        sums = np.bincount(runs.days - since, errors).astype(np.float64)
        used = days.counts > 0
        total = float(errors @ errors)
        among = float(np.sum(sums[used] ** 2 / days.counts[used]))
        within, between = days.variances(total, among)
        by_week = days.by_week(sums, within, between)
        return cls(within, between, by_week, int(used.sum()) - 1)

    def of_mean(self, days: Codes) -> float:
        """Return the variance of the mean of runs of some days."""
        counts = np.bincount(days - int(days.min()))
        number = len(days)
        common = self.between * float(counts @ counts) / number**2
        return self.by_week * (common + self.within / number)

    def of_days(self, weights: Numbers) -> float:
        """Return the variance that days add to a weighted sum of runs, from weights by day."""
        return self.by_week * self.between * float(weights @ weights)


@dataclass(frozen=True, slots=True)
class _Days:
    """What sums of errors by day are made of, if errors of runs and of days have variance 1.

    Attributes:
        counts: Runs of each day.
        of_runs: Covariances of the sums by day that are due to errors of runs.
        of_days: What an error of each day (columns) adds to the sums (rows).
        runs: Degrees of freedom of all errors of runs.
    """

    counts: Numbers
    of_runs: Numbers
    of_days: Numbers
    runs: float

    @classmethod
    def of(cls, expected: ExpectedScores) -> "_Days":
        """Take the estimated levels out: with H = X M X', errors are (I - H) y."""
        levels = expected.by_day
        counts = levels[:, 0]
        solved = levels @ expected.inverse
        fitted = solved @ levels.T
        twice = solved @ expected.products @ solved.T
        hat = expected.inverse @ expected.products
        freedom = len(expected.runs) - 2 * float(np.trace(hat)) + float(np.sum(hat * hat.T))
        whole = np.diag(counts)
        return cls(counts, whole - 2 * fitted + twice, whole - fitted, freedom)

    def variances(self, total: float, among: float) -> tuple[float, float]:
        """Return the variances within and between days from two sums of squares.

        Args:
            total: Sum of squared errors of runs.
            among: Sum of squared means of days, weighted by their runs.
        """
        used = self.counts > 0
        shares = 1 / self.counts[used]
        total_by = (self.runs, float(np.trace(self.of_runs)))
        among_by = (
            float(shares @ np.diag(self.of_runs)[used]),
            float(shares @ np.sum(self.of_days[used] ** 2, axis=1)),
        )
        if total_by[0] - among_by[0] >= _FEWEST_WITHIN:
            found = np.linalg.solve(np.array([total_by, among_by]), np.array([total, among]))
            if found[1] > 0 and found[0] >= 0:
                return float(found[0]), float(found[1])
        return total / max(total_by[0], 1.0), 0.0

    def by_week(self, sums: Numbers, within: float, between: float) -> float:
        """Return the variance of sums of 7 days in a row over what independent days would give.

        Overlapping blocks are the estimate of Newey and West (1987) with 6 lags.
        """
        if len(sums) <= WEEK:
            return 1.0
        shared = _weeks_of_both(len(sums))
        of_runs = float(np.sum(shared * self.of_runs))
        of_days = float(np.sum((shared @ self.of_days) * self.of_days))
        expected = within * of_runs + between * of_days
        return max(1.0, float(sums @ shared @ sums) / expected) if expected > 0 else 1.0


@cache
def _weeks_of_both(number: int) -> Numbers:
    """Return how many runs of 7 days in a row contain two days, for each two days."""
    blocks = np.array([np.arange(number) - first for first in range(number - WEEK + 1)])
    inside = ((blocks >= 0) & (blocks < WEEK)).astype(np.float64)
    return inside.T @ inside
