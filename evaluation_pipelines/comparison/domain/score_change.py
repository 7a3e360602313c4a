"""Change of the scores of a window against what the days before let expect.

The boundary, how far a change must go before it counts, however often one looks,
is closed-end (Chu, Stinchcombe and White, "Monitoring structural change", 1996): the
chance to cross it on any night of a quarter is bounded. Their limit theory is for one start and one
baseline; here both move with the night, so the chance is simulated and a curve put through it.
The share of a window is in proportion to its length: a short one is for large drops, which it finds
as well beyond a boundary that is a little farther away.
"""

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.numerics.estimates import Codes, Numbers

ALONE = 2
"""Models as which a single one counts: an interval has two ends, and that of an alert must not
contain 0."""

_RATE = 90.0
"""With 90 days before each window, 74 fits 480,000 simulated quarters of identical runs:
4.5, 0.98 and 0.10% of them cross the boundaries for 5, 1 and 0.1%. Where people come and go,
neighboring windows have less in common, and more nights are a chance of their own: 5.7 and 1.2% of
4,000 such quarters cross them, with variances that are known."""


def chance_in_quarter(deviates: float, weeks: int, models: int = 1) -> float:
    """Return the chance that some model goes as far, in one direction, in a quarter of no change.

    Args:
        deviates: Standard errors from no change, of a normal distribution; the sign is ignored.
        weeks: Length of the window.
        models: How many are watched.
    """
    density = math.exp(-(deviates**2) / 2) / math.sqrt(2 * math.pi)
    return -math.expm1(-models * _RATE * weeks**-1.5 * density)


def boundary(chance: float, weeks: int, models: int = 1) -> float:
    """Return the deviates that are reached in a quarter with some chance."""
    density = -math.log1p(-chance) * weeks**1.5 / (models * _RATE)
    return math.sqrt(-2 * math.log(density * math.sqrt(2 * math.pi)))


SHRINKAGE = 1.0
"""Variance of runs over that of the levels of task classes and of people. Those with few runs are
drawn to the level of all; new ones are taken to differ from it as much as runs do, so that they
raise hardly any alert before they are known."""


@dataclass(frozen=True)
class Levels:
    """How many task classes and people are told apart; their numbers in an ``Arm`` are smaller."""

    classes: int
    people: int

    def counts(self, runs: Arm, values: Numbers | None = None) -> Numbers:
        """Return the number of runs, of each class and of each person; or the sums of values."""
        everything = float(len(runs)) if values is None else float(values.sum())
        of_classes = np.bincount(runs.classes, values, minlength=self.classes)
        of_people = np.bincount(runs.people, values, minlength=self.people)
        return np.concatenate([[everything], of_classes, of_people])

    def of_runs(self, runs: Arm, levels: Numbers) -> Numbers:
        """Return the sum of the levels that apply to each run."""
        of_class = levels[1 + runs.classes]
        return np.asarray(levels[0] + of_class + levels[1 + self.classes + runs.people])


@dataclass(frozen=True)
class ExpectedScores:
    """Levels in some runs, as best linear unbiased predictions.

    Henderson, "Best linear unbiased estimation and prediction under a selection model", 1975:
    ``(X'X + R) b = X'y``, where R is 0 for the level in common and ``SHRINKAGE`` for the others.

    Attributes:
        runs: The runs.
        levels: Which levels are told apart.
    """

    runs: Arm
    levels: Levels

    @cached_property
    def products(self) -> Numbers:
        """``X'X``: runs that two levels share."""
        of, (classes, people) = self.levels, (self.levels.classes, self.levels.people)
        counts = of.counts(self.runs)
        cells = self.runs.classes * people + self.runs.people
        found = np.diag(counts)
        found[0] = found[:, 0] = counts
        both = np.bincount(cells, minlength=classes * people).reshape(classes, people)
        found[1 : 1 + classes, 1 + classes :] = both
        found[1 + classes :, 1 : 1 + classes] = both.T
        return found

    @cached_property
    def inverse(self) -> Numbers:
        """Inverse of ``X'X + R``."""
        of = self.levels
        shrinkages = np.repeat([0.0, SHRINKAGE], [1, of.classes + of.people])
        return np.asarray(np.linalg.inv(self.products + np.diag(shrinkages)))

    @cached_property
    def values(self) -> Numbers:
        """The levels: that in common, of classes, of people."""
        return np.asarray(self.inverse @ self.levels.counts(self.runs, self.runs.scores))

    @cached_property
    def by_day(self) -> Numbers:
        """How many runs of each day (rows, from the first one on) have each level."""
        of, days = self.levels, self.runs.days - self.runs.days.min()
        number, sizes = int(days.max()) + 1, (1, of.classes, of.people)
        codes = (np.zeros_like(days), self.runs.classes, self.runs.people)
        parts = [
            np.bincount(days * size + code, minlength=number * size).reshape(number, size)
            for size, code in zip(sizes, codes, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def of_runs(self, runs: Arm) -> Numbers:
        """Return the expected score of each run."""
        return self.levels.of_runs(runs, self.values)

    def weights(self, runs: Arm) -> tuple[Numbers, float]:
        """Return how the mean expected score of some runs was made.

        Returns:
            The weight of all runs of each day, and the variance of the mean in units of the
            variance of a run: that of the estimates, and that of people and classes not seen.
        """
        shares = self.levels.counts(runs) / len(runs)
        solved = self.inverse @ shares
        return self.by_day @ solved, float(shares @ solved)


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
        shared = _shared_weeks(len(sums))
        of_runs = float(np.sum(shared * self.of_runs))
        of_days = float(np.sum((shared @ self.of_days) * self.of_days))
        expected = within * of_runs + between * of_days
        return max(1.0, float(sums @ shared @ sums) / expected) if expected > 0 else 1.0


@cache
def _shared_weeks(number: int) -> Numbers:
    """Return how many runs of 7 days in a row contain two days, for each two days."""
    blocks = np.array([np.arange(number) - first for first in range(number - WEEK + 1)])
    inside = ((blocks >= 0) & (blocks < WEEK)).astype(np.float64)
    return inside.T @ inside


_SMALLEST_P = 1e-300


@dataclass(frozen=True)
class ScoreChange:
    """Mean score of some runs less what was expected of them.

    Attributes:
        value: The change, in points.
        error: Its standard error; more than 0.
        freedom: Degrees of freedom.
        errors: Score less expected score of each run.
    """

    value: float
    error: float
    freedom: int
    errors: Numbers

    @property
    def lasting(self) -> float:
        """The change that must be large enough for an alert."""
        return self.value

    @property
    def deviates(self) -> float:
        """Standard errors from 0, turned from Student's t into those of a normal distribution."""
        from scipy.special import ndtri, stdtr  # takes a while to import

        tail = max(float(stdtr(self.freedom, -abs(self.value) / self.error)), _SMALLEST_P)
        return math.copysign(float(ndtri(tail)), self.value)

    def ends(self, deviates: float) -> tuple[float, float]:
        """Return the ends of the interval of some deviates."""
        from scipy.special import ndtr, stdtrit

        half = -float(stdtrit(self.freedom, ndtr(-deviates))) * self.error
        return self.value - half, self.value + half


@dataclass(frozen=True)
class ScoresBefore:
    """Runs of the days before a window.

    Attributes:
        runs: The runs.
        levels: Which task classes and people are told apart.
        smallest_spread: Points by which runs are taken to vary at least.
        failed_below: Only near 100 is a failure told from a low score.
    """

    runs: Arm
    levels: Levels
    smallest_spread: float = 0.0
    failed_below: None = None

    @cached_property
    def expected(self) -> ExpectedScores:
        """What they let expect."""
        return ExpectedScores(self.runs, self.levels)

    @cached_property
    def spread(self) -> DaySpread:
        """How much their days and runs vary."""
        found = DaySpread.of(self.expected)
        return replace(found, within=max(found.within, self.smallest_spread**2))

    def change(self, window: Arm) -> ScoreChange:
        """Return the change in some later runs."""
        errors = window.scores - self.expected.of_runs(window)
        weights, estimated = self.expected.weights(window)
        spread = self.spread
        variance = (
            spread.of_mean(window.days)
            + spread.of_days(weights)
            + spread.by_week * spread.within * estimated
        )
        error = max(math.sqrt(variance), _TINY)
        return ScoreChange(float(errors.mean()), error, spread.freedom, errors)


_TINY = 1e-6
"""Points; scores that follow from task class and person alone have no errors."""
