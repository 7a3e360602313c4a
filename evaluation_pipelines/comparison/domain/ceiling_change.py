"""Change of the mean score near 100, where failures are rare and far below the other runs.

Hardly any failure is known before a model starts to fail, so their spread is unknown: next to runs
that vary by 3 points, a single one would be beyond chance. The test therefore bounds every score
from below at the point where failures begin ("Winsorized" scores; Huber, "Robust estimation of a
location parameter", 1964), and counts the two worst days of a window like the third worst: an
outage of a day is no drop, nor is it one together with a failure on another day. A lower score
never makes a drop smaller by that, and all errors come from the days before. So a window that has
an alert keeps it, whichever of its scores are lower still.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evaluation_pipelines.comparison.domain.differences import APART, Losses, is_at_ceiling
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.score_change import (
    ExpectedScores,
    Levels,
    ScoreChange,
    ScoresBefore,
)
from evaluation_pipelines.numerics.estimates import Codes, Numbers, share_of
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

_SMALLEST_SPREAD = 1.0
"""Points by which runs are taken to vary at least: those that all score 100 do not show it."""


@dataclass(frozen=True)
class CeilingBefore:
    """Runs of the days before a window, near 100.

    Attributes:
        runs: The runs.
        levels: Which task classes and people are told apart.
        bound: Score at which failures begin; lower ones count like it in the test.
    """

    runs: Arm
    levels: Levels
    bound: float

    @classmethod
    def of(cls, runs: Arm, levels: Levels) -> "CeilingBefore | None":
        """Return the days before; None if their scores are not near 100."""
        return cls(runs, levels, _bound(runs.scores)) if is_at_ceiling(runs.scores) else None

    @property
    def failed_below(self) -> float:
        """Score under which a run failed: far below the others, and under the pass mark."""
        return min(PASSES_FROM, self.bound)

    @cached_property
    def expected(self) -> ExpectedScores:
        """What the runs let expect."""
        return ExpectedScores(self.runs, self.levels)

    @cached_property
    def _bounded(self) -> ScoresBefore:
        runs = replace(self.runs, scores=np.maximum(self.runs.scores, self.bound))
        return ScoresBefore(runs, self.levels, _SMALLEST_SPREAD)

    def lost_points(self, runs: Arm) -> Losses | None:
        """Return the points that some runs lie below the bound; None if none does."""
        below = runs.scores < self.bound
        share = share_of(below.astype(np.float64), runs.days)
        if share is None or not below.any():
            return None
        return Losses(share, float(self.bound - runs.scores[below].mean()))

    def failures_of(self, runs: Arm) -> float:
        """Return the points that failures take from the mean of some runs."""
        has_failed = runs.scores < self.failed_below
        passes = self.runs.scores[self.runs.scores >= self.failed_below].mean()
        return float(np.sum(passes - runs.scores[has_failed])) / len(runs)

    def change(self, window: Arm) -> "CeilingChange":
        """Return the change in some later runs, of at least three days."""
        errors = window.scores - self.expected.of_runs(window)
        scores = np.maximum(window.scores, self.bound)
        bounded = self._bounded.change(replace(window, scores=scores))
        return CeilingChange(
            float(errors.mean()),
            _lasting(errors, window.days),
            errors,
            replace(bounded, value=_lasting(bounded.errors, window.days)),
            window,
            self,
        )


@dataclass(frozen=True, slots=True)
class CeilingChange:
    """Mean score of some runs less what was expected of them.

    Attributes:
        value: The change, in points; every run counts with its score.
        lasting: The change if the two worst days were like the third worst.
        errors: Score less expected score of each run.
        bounded: The lasting change of bounded scores: the test.
        window: The runs.
        before: Runs of the days before.
    """

    value: float
    lasting: float
    errors: Numbers
    bounded: ScoreChange
    window: Arm
    before: CeilingBefore

    @property
    def deviates(self) -> float:
        """Normal deviates of the bounded scores from no change."""
        return self.bounded.deviates

    @property
    def is_due_to_failures(self) -> bool:
        """Whether more than half of the change is due to failures."""
        before = self.before
        by_failures = before.failures_of(before.runs) - before.failures_of(self.window)
        return abs(by_failures) > abs(self.value) / 2

    def ends(self, deviates: float) -> tuple[float, float]:
        """Return the ends of the interval of some deviates.

        Bounded scores by Student's t and what lies below the bound by Wilson's interval, joined by
        MOVER (Zou and Donner, 2008), as in a comparison near 100. Failures that were not seen are
        not in it. Where more is lost than before, bounded scores limit the upper end.
        """
        from scipy.special import ndtr  # takes a while to import

        alpha = 2 * float(ndtr(-deviates))
        low, high = self.bounded.ends(deviates)
        less, more = _around(self.before.lost_points(self.window), alpha)
        less_before, more_before = _around(self.before.lost_points(self.before.runs), alpha)
        down = math.hypot(self.bounded.value - low, more, less_before)
        up = self.value + math.hypot(high - self.bounded.value, less, more_before)
        return self.value - down, min(up, high) if self.value <= self.bounded.value else up


def _bound(scores: Numbers) -> float:
    passes = scores[scores >= PASSES_FROM]
    return float(passes.mean() - APART * max(passes.std(ddof=1), _SMALLEST_SPREAD))


def _around(lost: Losses | None, alpha: float) -> tuple[float, float]:
    """Return how far the ends of an interval of losses lie below and above their value."""
    if lost is None:
        return 0.0, 0.0
    low, high = lost.ends(alpha)
    return lost.value - low, high - lost.value


def _lasting(errors: Numbers, days: Codes) -> float:
    """Return the mean error if the two worst days were like the third worst.

    A rise stays what it is, and a drop does not become one.
    """
    since = days - days.min()
    counts = np.bincount(since)
    used = counts > 0
    sizes = counts[used]
    means = np.bincount(since, errors)[used] / sizes
    found = float(np.maximum(means, np.partition(means, 2)[2]) @ sizes) / len(errors)
    return max(float(errors.mean()), min(found, 0.0))
