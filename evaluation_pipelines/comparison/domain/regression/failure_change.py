"""Change of the share of failures, at the ceiling."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evaluation_pipelines.comparison.domain.ceiling import APART, is_at_ceiling
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regression.expected_scores import Levels
from evaluation_pipelines.numerics.estimates import Codes, Numbers
from evaluation_pipelines.numerics.shares import correlation
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

_PRIOR_FAILURES = 2.0
"""Expected failures with which the rate of a class or person is drawn to that of all."""

_SMALLEST_P = 1e-300


@dataclass(frozen=True)
class FailureChange:
    """Failures of some runs against those of the days before.

    Given all failures, those of the window are binomial with the window's share of the risk
    (Przyborowski and Wilenski, 1940), here of effective numbers: failures of a day are alike.

    Attributes:
        value: The change of the mean score that is due to failures, in points.
        failed: Effective number of failures in the window.
        of: Effective number of failures in all.
        share: Share of the risk that lies in the window, if nothing changed.
        runs: Effective number of runs of the window.
        risk: Mean risk of a run of the window; before any failure, half a one was expected.
        cost: Points that a failure costs.
        errors: Points of each run of the window less what its risk lets expect.
    """

    value: float
    failed: float
    of: float
    share: float
    runs: float
    risk: float
    cost: float
    errors: Numbers

    @cached_property
    def deviates(self) -> float:
        """Normal deviates from no change; below 0 for more failures."""
        from scipy.special import betainc, ndtri  # takes a while to import

        rest = self.of - self.failed
        more = betainc(self.failed, rest + 1, self.share) if self.failed > 0 else 1.0
        fewer = betainc(rest, self.failed + 1, 1 - self.share) if rest > 0 else 1.0
        sign = -1.0 if more < fewer else 1.0
        return sign * max(-float(ndtri(max(min(more, fewer), _SMALLEST_P))), 0.0)

    def ends(self, deviates: float) -> tuple[float, float]:
        """Return the ends of the interval of some deviates, after Clopper and Pearson (1934).

        Where hardly any failures are known, those of the window alone bound its share of failures.
        The change itself is inside: before any failure, its risk is 0 and not half a failure.
        """
        from scipy.special import betaincinv, ndtr

        alpha, rest = float(ndtr(-deviates)), self.of - self.failed
        passed = max(self.runs - self.failed, 0.0)
        low = betaincinv(self.failed, rest + 1, alpha) if self.failed > 0 else 0.0
        high = betaincinv(self.failed + 1, rest, 1 - alpha) if rest > 0 else 1.0
        largest = betaincinv(self.failed + 1, passed, 1 - alpha) if passed > 0 else 1.0
        ends = [self._points(float(end), float(largest)) for end in (high, low)]
        return min(ends[0], self.value), max(ends[1], self.value)

    def _points(self, share: float, largest: float) -> float:
        """Return the change if this share of the failures belongs to the window."""
        if share >= 1:
            return (self.risk - largest) * self.cost
        times = share / (1 - share) * (1 - self.share) / self.share
        return (self.risk - min(times * self.risk, largest)) * self.cost


def failed_below(scores: Numbers) -> float | None:
    """Return the score under which a run failed; None if scores are not at the ceiling.

    A failure is far below the others, and under the pass mark: a lower tail is no failure.
    """
    if not is_at_ceiling(scores):
        return None
    passes = scores[scores >= PASSES_FROM]
    return min(PASSES_FROM, float(passes.mean() - APART * passes.std(ddof=1)))


def failure_change(before: Arm, window: Arm, levels: Levels, below: float) -> FailureChange:
    """Return the change of failures in a window.

    Args:
        before: Runs of the days before; some of them passed.
        window: Runs of the window.
        levels: Which task classes and people are told apart.
        below: Score under which a run failed.
    """
    both = Arm(
        *(
            np.concatenate([getattr(before, name), getattr(window, name)])
            for name in ("scores", "people", "classes", "days")
        )
    )
    failed = (both.scores < below).astype(np.float64)
    number = len(before)
    risks = _risks(before, failed[:number], both, levels)
    likeness = _likeness(failed, both.days)
    in_window, in_all = float(failed[number:].sum()), float(failed.sum())
    cost = float(both.scores[failed == 0].mean())
    if in_all:
        cost -= float(both.scores[failed == 1].mean())
    # Half a failure is a prior of the test; the change is from what was seen.
    seen = risks[number:] if failed[:number].any() else 0.0
    errors = (seen - failed[number:]) * cost
    return FailureChange(
        float(errors.mean()),
        in_window / likeness,
        in_all / likeness,
        float(risks[number:].sum() / risks.sum()),
        len(window) / likeness,
        float(risks[number:].mean()),
        cost,
        errors,
    )


def _risks(before: Arm, failed: Numbers, both: Arm, levels: Levels) -> Numbers:
    """Return the risk of each run of both, from the failures before; those add up to it."""
    number = len(before)
    risks = np.full(len(both), max(float(failed.sum()), 0.5) / number)
    for codes, size in ((both.classes, levels.classes), (both.people, levels.people)):
        expected = np.bincount(codes[:number], risks[:number], minlength=size)
        found = np.bincount(codes[:number], failed, minlength=size)
        risks = risks * ((found + _PRIOR_FAILURES) / (expected + _PRIOR_FAILURES))[codes]
    # Failures that were never seen yet are half a one.
    risks = risks * max(float(failed.sum()), 0.5) / float(risks[:number].sum())
    return np.asarray(np.minimum(risks, 1.0))


def _likeness(failed: Numbers, days: Codes) -> float:
    """Return Kish's design effect of days: one day of failures is less than as many days."""
    _, codes, sizes = np.unique(days, return_inverse=True, return_counts=True)
    alike = correlation(np.bincount(codes, failed) / sizes, sizes)
    return 1 + (float(sizes @ sizes) / len(failed) - 1) * alike
