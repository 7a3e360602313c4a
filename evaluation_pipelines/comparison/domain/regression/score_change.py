"""Change of the mean score against what the days before let expect."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regression.day_spread import DaySpread
from evaluation_pipelines.comparison.domain.regression.expected_scores import (
    ExpectedScores,
    Levels,
)
from evaluation_pipelines.numerics.estimates import Numbers

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
    """

    runs: Arm
    levels: Levels
    smallest_spread: float = 0.0

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
