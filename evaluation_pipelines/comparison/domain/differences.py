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
from evaluation_pipelines.numerics.estimates import Codes, Numbers
from evaluation_pipelines.numerics.student import t_quantile, two_sided_p
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

MIN_PEOPLE = 5
"""With fewer people on a side nothing is decided."""

SMALLEST_KEPT = 0.5
"""People are compared with themselves if those who used both have this share of each side's runs.

That takes out how people differ, but a verdict must rest on most of the runs that it shows. With
less, all people are compared, and how they differ is part of the error.
"""

SMALLEST_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second, with a 95% interval and the p-value of the same error.

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

    def ends(self, alpha: float) -> tuple[float | None, float | None]:
        """Return the interval that a difference of 0 leaves in ``alpha`` of all cases."""
        if self.parts is not None:
            return self.parts.ends(alpha)
        if self.value is None or self.error is None:
            return None, None
        half = t_quantile(self.freedom, alpha) * self.error
        return self.value - half, self.value + half

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


def difference(
    first: Arm, second: Arm, *, at_ceiling: bool = False, min_runs: int = 0
) -> Difference:
    """Return the difference within task classes that both sides have; people weigh alike.

    Args:
        first: Runs of one model.
        second: Runs of the other.
        at_ceiling: Judge failures and other runs apart.
        min_runs: As in ``choice``.
    """
    first, second, is_paired = comparable(first, second, min_runs)
    if not len(first):
        return Difference()
    estimate = paired_difference if is_paired else apart_difference
    found = estimate(first, second)
    if at_ceiling:
        parts = _two_part(found.value, first, second, is_paired=is_paired)
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


@dataclass(frozen=True, slots=True)
class Choice:
    """Which runs of two sides are compared; ``is_paired``: people are compared with themselves."""

    first: Chosen
    second: Chosen
    is_paired: bool


def comparable(first: Arm, second: Arm, min_runs: int = 0) -> tuple[Arm, Arm, bool]:
    """Return the runs that are compared, and whether people are compared with themselves."""
    found = choice(first, second, min_runs)
    return first.only(found.first), second.only(found.second), found.is_paired


def choice(first: Arm, second: Arm, min_runs: int = 0) -> Choice:
    """Choose the runs that are compared: those in task classes that both sides have.

    Only those of people who used both models, if that keeps enough people and runs. It depends on
    who did what, never on a score.

    Args:
        first: Runs of one model.
        second: Runs of the other.
        min_runs: A side that has as many is not left with fewer.
    """
    in_classes = _in_shared_classes(first, second)
    kept, before = in_classes, None
    while before != (size := _size(kept)):
        before = size
        # Without a person a class may be missing on a side, and without a class a person.
        kept = _of_both(first.people, second.people, kept)
        kept = _of_both(first.classes, second.classes, kept)
    if _keeps_enough(first, second, in_classes, kept, min_runs):
        return Choice(*kept, is_paired=True)
    return Choice(*in_classes, is_paired=False)


_Both = tuple[Chosen, Chosen]


def _in_shared_classes(first: Arm, second: Arm) -> _Both:
    every: _Both = (np.ones(len(first), dtype=np.bool_), np.ones(len(second), dtype=np.bool_))
    return _of_both(first.classes, second.classes, every)


def _of_both(first: Codes, second: Codes, among: _Both) -> _Both:
    """Choose among the chosen runs those whose code is on both sides."""
    both = np.intersect1d(first[among[0]], second[among[1]])
    return among[0] & np.isin(first, both), among[1] & np.isin(second, both)


def _size(chosen: _Both) -> tuple[int, int]:
    return int(chosen[0].sum()), int(chosen[1].sum())


def _keeps_enough(first: Arm, second: Arm, of: _Both, kept: _Both, min_runs: int) -> bool:
    """Return True if people who used both are enough, or all, and have enough of the runs."""
    both = len(first.only(kept[0]).known_people)
    known = first.only(of[0]).known_people, second.only(of[1]).known_people
    has_people = both >= MIN_PEOPLE or (both == len(np.union1d(*known)) and both > 1)
    sizes = zip(_size(kept), _size(of), strict=True)
    return has_people and all(
        part >= SMALLEST_KEPT * whole and not part < min_runs <= whole for part, whole in sizes
    )


def shared_classes(first: Arm, second: Arm) -> tuple[int, float]:
    """Return the number of classes on both sides, and the share of all runs in them."""
    both = np.intersect1d(first.classes, second.classes)
    classes = np.concatenate([first.classes, second.classes])
    return len(both), float(np.isin(classes, both).mean())


def shared_days(first: Arm, second: Arm) -> float:
    """Return the share of all runs on days on which both models were used."""
    both = np.intersect1d(first.days, second.days)
    return float(np.isin(np.concatenate([first.days, second.days]), both).mean())


def people_of_both(first: Arm, second: Arm) -> int:
    """Return the number of people who used both models."""
    return len(np.intersect1d(first.known_people, second.known_people))


def _two_part(value: float, first: Arm, second: Arm, *, is_paired: bool) -> TwoPart | None:
    """Return the two-part difference; None if one of its parts has no error."""
    scores: Numbers = np.concatenate([first.scores, second.scores])
    failed = scores[scores < PASSES_FROM]
    failed_score = float(failed.mean()) if len(failed) else 0.0
    lost = losses(first, failed_score), losses(second, failed_score)
    a, b = (side.only(_passed(side)) for side in (first, second))
    if is_paired:
        a, b, is_paired = comparable(a, b)
    else:
        in_a, in_b = _in_shared_classes(a, b)
        a, b = a.only(in_a), b.only(in_b)
    if lost[0] is None or lost[1] is None or not len(a):
        return None
    passes = (paired_difference if is_paired else apart_difference)(a, b)
    return TwoPart(value, passes, lost[0], lost[1]) if passes.freedom else None


def _passed(side: Arm) -> Chosen:
    chosen: Chosen = side.scores >= PASSES_FROM
    return chosen
