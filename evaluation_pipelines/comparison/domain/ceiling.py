"""Scores at the ceiling with rare failures: failures and the other runs are judged apart.

Thirty runs near 95 show hardly any spread until one of them fails. How often runs fail is a share,
with Wilson's interval; what the others score is a mean, with Student's. Both are joined by MOVER,
the method of variance estimates recovery (Zou and Donner, "Construction of confidence limits about
effect measures: a general approach", 2008).
"""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm, Inference, mean_of_people
from evaluation_pipelines.numerics.estimates import Estimate, Numbers
from evaluation_pipelines.numerics.shares import Share, share_of
from evaluation_pipelines.numerics.student import LEVEL, t_quantile
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
    passes = mean_of_people(arm.only(arm.scores >= PASSES_FROM))
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

    def level_at(self, limit: float) -> float:
        """Return the level at which the interval would end at ``limit``: a two-sided p-value."""
        from scipy.optimize import brentq

        def outside(log_alpha: float) -> float:
            low, high = self.ends(float(np.exp(log_alpha)))
            return low - limit if self.value > limit else limit - high

        smallest, largest = np.log(1e-9), np.log(1 - 1e-9)
        if outside(smallest) >= 0:
            return 1e-9
        if outside(largest) <= 0:
            return 1.0
        return float(np.exp(brentq(outside, smallest, largest, xtol=1e-6)))
