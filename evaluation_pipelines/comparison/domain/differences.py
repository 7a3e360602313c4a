"""Difference of two models' mean scores for the same mix of tasks."""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.ceiling import TwoPart, losses
from evaluation_pipelines.comparison.domain.people import (
    Arm,
    Chosen,
    apart_difference,
    paired_difference,
)
from evaluation_pipelines.numerics.estimates import Numbers
from evaluation_pipelines.numerics.student import t_quantile, two_sided_p
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

MIN_PEOPLE = 5
"""With fewer people on a side nothing is decided."""

SMALLEST_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second, with a 95 % interval and the p-value of the same error.

    None if there is nothing to compare, or no variance.

    Attributes:
        value: The difference in points.
        low: Lower end of its interval.
        high: Upper end.
        p: Two-sided p-value of no difference.
        error: Its standard error.
        is_paired: People who used both models were compared with themselves.
        freedom: Degrees of freedom of the error.
        parts: Failures and passes, where they are judged apart.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    error: float | None = None
    is_paired: bool = False
    freedom: float = 0.0
    parts: TwoPart | None = None

    def p_above(self, limit: float) -> float | None:
        """Return the one-sided p-value for a difference above ``limit``; None without an error."""
        level = self._level_at(limit)
        if level is None or self.value is None:
            return None
        return level / 2 if self.value > limit else 1 - level / 2

    def p_below(self, limit: float) -> float | None:
        """Return the one-sided p-value for a difference below ``limit``; None without an error."""
        above = self.p_above(limit)
        return None if above is None else 1 - above

    def _level_at(self, limit: float) -> float | None:
        if self.parts is not None:
            return self.parts.level_at(limit)
        if self.value is None or self.error is None:
            return None
        return two_sided_p(self.value - limit, self.error, self.freedom)


def difference(first: Arm, second: Arm, *, at_ceiling: bool = False) -> Difference:
    """Return the difference within task classes that both sides have; people weigh alike.

    Args:
        first: Runs of one model.
        second: Runs of the other.
        at_ceiling: Judge failures and other runs apart.
    """
    first, second, is_paired = comparable(first, second)
    if not len(first):
        return Difference()
    estimate = paired_difference if is_paired else apart_difference
    found = estimate(first, second)
    if at_ceiling:
        parts = _two_part(found.value, first, second)
        if parts is not None:
            low, high = parts.ends()
            freedom = parts.passes.freedom
            error = (high - low) / 2 / t_quantile(freedom)
            p = parts.level_at(0)
            return Difference(found.value, low, high, p, error, is_paired, freedom, parts)
    if found.freedom == 0 or found.error < SMALLEST_ERROR:
        return Difference(found.value, is_paired=is_paired)
    half = t_quantile(found.freedom) * found.error
    p = two_sided_p(found.value, found.error, found.freedom)
    ends = found.value - half, found.value + half
    return Difference(found.value, *ends, p, found.error, is_paired, found.freedom)


def comparable(first: Arm, second: Arm) -> tuple[Arm, Arm, bool]:
    """Return the runs that are compared, and whether people are compared with themselves.

    Only runs in task classes that both sides have; if enough people used both models, only theirs.
    """
    first, second = _same_classes(first, second)
    is_paired = are_paired(first, second)
    before = -1
    while is_paired and len(first) + len(second) != before:
        before = len(first) + len(second)
        # Without a person a class may be missing on a side, and without a class a person.
        first, second = _same_classes(*_of_both(first, second))
    return first, second, is_paired


def _same_classes(first: Arm, second: Arm) -> tuple[Arm, Arm]:
    both = np.intersect1d(first.classes, second.classes)
    return first.only(np.isin(first.classes, both)), second.only(np.isin(second.classes, both))


def shared_classes(first: Arm, second: Arm) -> tuple[int, float]:
    """Return the number of classes on both sides, and the share of all runs in them."""
    both = np.intersect1d(first.classes, second.classes)
    classes = np.concatenate([first.classes, second.classes])
    return len(both), float(np.isin(classes, both).mean())


def people_of_both(first: Arm, second: Arm) -> int:
    """Return the number of people who used both models."""
    return len(np.intersect1d(first.known_people, second.known_people))


def are_paired(first: Arm, second: Arm) -> bool:
    """Return True if people are compared with themselves: enough of them, or all, used both."""
    both = people_of_both(first, second)
    everyone = len(np.union1d(first.known_people, second.known_people))
    return both >= MIN_PEOPLE or (both == everyone and both > 1)


def _of_both(first: Arm, second: Arm) -> tuple[Arm, Arm]:
    both = np.intersect1d(first.people, second.people)
    return first.only(np.isin(first.people, both)), second.only(np.isin(second.people, both))


def _two_part(value: float, first: Arm, second: Arm) -> TwoPart | None:
    """Return the two-part difference; None if one of its parts has no error."""
    scores: Numbers = np.concatenate([first.scores, second.scores])
    failed = scores[scores < PASSES_FROM]
    failed_score = float(failed.mean()) if len(failed) else 0.0
    lost = losses(first, failed_score), losses(second, failed_score)
    a, b, is_paired = comparable(*(side.only(_passed(side)) for side in (first, second)))
    if lost[0] is None or lost[1] is None or not len(a):
        return None
    passes = (paired_difference if is_paired else apart_difference)(a, b)
    return TwoPart(value, passes, lost[0], lost[1]) if passes.freedom else None


def _passed(side: Arm) -> Chosen:
    chosen: Chosen = side.scores >= PASSES_FROM
    return chosen
