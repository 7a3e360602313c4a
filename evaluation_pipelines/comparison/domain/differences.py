"""Difference of two models' mean scores for the same mix of tasks.

At the ceiling, where failures are rare, failures and the other runs are judged apart.

Thirty runs near 95 show hardly any spread until one of them fails. How often runs fail is a share,
with Wilson's interval; what the others score is a mean, with Student's. Both are joined by MOVER,
the method of variance estimates recovery (Zou and Donner, "Construction of confidence limits about
effect measures: a general approach", 2008).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import (
    Arm,
    Chosen,
    Inference,
    apart_difference,
    paired_difference,
    people_mean,
)
from evaluation_pipelines.numerics.estimates import (
    LEVEL,
    Codes,
    Estimate,
    Numbers,
    Share,
    share_of,
    t_quantile,
    two_sided_p,
)
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

CEILING = 2.25
"""Scores are at the ceiling if those that pass lie more than this number of their standard
deviations above the pass mark."""

APART = 5.0
"""Failures are a kind of their own if they lie more than this number of standard deviations of the
passes below their mean; otherwise they are the tail of ordinary scores, which t takes care of."""


def is_at_ceiling(scores: Numbers) -> bool:
    """Return True if failures, if there are any, are a kind of their own among some scores."""
    passes, failures = scores[scores >= PASSES_FROM], scores[scores < PASSES_FROM]
    if len(passes) < 2:
        return False
    center, spread = float(passes.mean()), float(passes.std(ddof=1))
    is_high = center - PASSES_FROM > CEILING * spread
    return is_high and (not len(failures) or center - float(failures.mean()) > APART * spread)


@dataclass(frozen=True, slots=True)
class Losses:
    """Points that failures take from a mean: their share times what one of them costs."""

    share: Share
    cost: float

    @property
    def value(self) -> float:
        """The points."""
        return self.share.value * self.cost

    def ends(self, alpha: float) -> tuple[float, float]:
        """Return their interval."""
        low, high = self.share.ends(alpha)
        return low * self.cost, high * self.cost


def losses(arm: Arm, failed_score: float) -> Losses | None:
    """Return what failures take from the mean of a side; None for fewer than two people.

    Args:
        arm: Runs of the side.
        failed_score: Score of a failed run, where the side has none.
    """
    failed = arm.scores < PASSES_FROM
    share = share_of(failed.astype(np.float64), arm.people, alike=True)
    if share is None or failed.all():
        return None
    lowest = float(arm.scores[failed].mean()) if failed.any() else failed_score
    return Losses(share, float(arm.scores[~failed].mean()) - lowest)


def mean_at_ceiling(value: float, arm: Arm, of_label: Losses | None) -> Estimate | None:
    """Return a mean with its two-part interval; None if one of the parts is unknown.

    Args:
        value: The mean.
        arm: Runs of the side.
        of_label: Losses of all runs of the label if none of them failed: nothing else bounds them.
    """
    lost = of_label or losses(arm, 0.0)
    if lost is None:
        return None
    passes = people_mean(arm.only(arm.scores >= PASSES_FROM))
    if passes.freedom == 0:
        return None
    half = t_quantile(passes.freedom) * passes.error
    low, high = lost.ends(1 - LEVEL)
    return Estimate(
        value,
        value - float(np.hypot(half, high - lost.value)),
        value + float(np.hypot(half, lost.value - low)),
    )


@dataclass(frozen=True, slots=True)
class TwoPart:
    """A difference of means at the ceiling.

    Attributes:
        value: First minus second.
        passes: The difference among runs that passed.
        first: Losses of the first side.
        second: Losses of the second side.
    """

    value: float
    passes: Inference
    first: Losses
    second: Losses

    def ends(self, alpha: float = 1 - LEVEL) -> tuple[float, float]:
        """Return the interval."""
        half = t_quantile(self.passes.freedom, alpha) * self.passes.error
        (low_a, high_a), (low_b, high_b) = self.first.ends(alpha), self.second.ends(alpha)
        a, b = self.first.value, self.second.value
        down = np.sqrt(half**2 + (high_a - a) ** 2 + (b - low_b) ** 2)
        up = np.sqrt(half**2 + (a - low_a) ** 2 + (high_b - b) ** 2)
        return self.value - float(down), self.value + float(up)


def level_at(ends: Callable[[float], tuple[float, float]], value: float, limit: float) -> float:
    """Return the level at which the interval would end at ``limit``: a two-sided p-value."""
    from scipy.optimize import brentq

    def outside(log_alpha: float) -> float:
        low, high = ends(float(np.exp(log_alpha)))
        return low - limit if value > limit else limit - high

    smallest, largest = np.log(1e-9), np.log(1 - 1e-9)
    if outside(smallest) >= 0:
        return 1e-9
    if outside(largest) <= 0:
        return 1.0
    return float(np.exp(brentq(outside, smallest, largest, xtol=1e-6)))


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
    """First minus second, with intervals and p-values of the same error.

    None if there is nothing to compare, or no variance.

    Attributes:
        value: The difference in points.
        error: Its standard error.
        freedom: Degrees of freedom of the error.
        is_paired: People who used both models were compared with themselves.
        parts: Failures and passes, where they are judged apart.
    """

    value: float | None = None
    error: float | None = None
    freedom: float = 0.0
    is_paired: bool = False
    parts: TwoPart | None = None

    @property
    def low(self) -> float | None:
        """Lower end of the 95% interval."""
        return self.ends()[0]

    @property
    def high(self) -> float | None:
        """Upper end of the 95% interval."""
        return self.ends()[1]

    @property
    def p(self) -> float | None:
        """Two-sided p-value of no difference."""
        return self._level_at(0)

    def ends(self, alpha: float = 1 - LEVEL) -> tuple[float | None, float | None]:
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
            return level_at(self.parts.ends, self.parts.value, limit)
        if self.value is None or self.error is None:
            return None
        return two_sided_p(self.value - limit, self.error, self.freedom)


def difference(
    first: Arm, second: Arm, *, at_ceiling: bool = False, min_runs: int = 0
) -> Difference:
    """Return the difference within task classes that both sides have; people weigh the same.

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
    if at_ceiling and (parts := _two_part(found.value, first, second, is_paired=is_paired)):
        low, high = parts.ends()
        freedom = parts.passes.freedom
        error = (high - low) / 2 / t_quantile(freedom)
        return Difference(found.value, error, freedom, is_paired, parts)
    if found.freedom == 0 or found.error < SMALLEST_ERROR:
        return Difference(found.value, is_paired=is_paired)
    return Difference(found.value, found.error, found.freedom, is_paired)


def comparable(first: Arm, second: Arm, min_runs: int = 0) -> tuple[Arm, Arm, bool]:
    """Return the runs that are compared, and whether people are compared with themselves."""
    in_first, in_second, is_paired = choice(first, second, min_runs)
    return first.only(in_first), second.only(in_second), is_paired


def choice(first: Arm, second: Arm, min_runs: int = 0) -> tuple[Chosen, Chosen, bool]:
    """Choose the runs that are compared: those in task classes that both sides have.

    Only those of people who used both models, if that keeps enough people and runs. It depends on
    who did what, never on a score.

    Args:
        first: Runs of one model.
        second: Runs of the other.
        min_runs: A side that has as many is not left with fewer.

    Returns:
        Which runs of each side, and whether people are compared with themselves.
    """
    in_classes = _in_shared_classes(first, second)
    kept, before = in_classes, None
    while before != (size := _size(kept)):
        before = size
        # Without a person a class may be missing on a side, and without a class a person.
        kept = _on_both_sides(first.people, second.people, kept)
        kept = _on_both_sides(first.classes, second.classes, kept)
    if _keeps_enough(first, second, in_classes, kept, min_runs):
        return *kept, True
    return *in_classes, False


_Both = tuple[Chosen, Chosen]


def _in_shared_classes(first: Arm, second: Arm) -> _Both:
    every: _Both = (np.ones(len(first), dtype=np.bool_), np.ones(len(second), dtype=np.bool_))
    return _on_both_sides(first.classes, second.classes, every)


def _on_both_sides(first: Codes, second: Codes, among: _Both) -> _Both:
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


def shared_people(first: Arm, second: Arm) -> int:
    """Return the number of people who used both models."""
    return len(np.intersect1d(first.known_people, second.known_people))


def _two_part(value: float, first: Arm, second: Arm, *, is_paired: bool) -> TwoPart | None:
    """Return the two-part difference; None if one of its parts has no error."""
    scores: Numbers = np.concatenate([first.scores, second.scores])
    failed = scores[scores < PASSES_FROM]
    failed_score = float(failed.mean()) if len(failed) else 0.0
    lost = losses(first, failed_score), losses(second, failed_score)
    a, b = (side.only(side.scores >= PASSES_FROM) for side in (first, second))
    if is_paired:
        a, b, is_paired = comparable(a, b)
    else:
        in_a, in_b = _in_shared_classes(a, b)
        a, b = a.only(in_a), b.only(in_b)
    if lost[0] is None or lost[1] is None or not len(a):
        return None
    passes = (paired_difference if is_paired else apart_difference)(a, b)
    return TwoPart(value, passes, lost[0], lost[1]) if passes.freedom else None
