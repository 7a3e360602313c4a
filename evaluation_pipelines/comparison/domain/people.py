"""Means and differences of scores in which people weigh alike.

Runs of one person resemble each other, and a person who runs a lot says no more about other
people than one who runs little. So each person is one observation (Ibragimov and Mueller,
"t-statistic based correlation and heterogeneity robust inference", 2010; "Inference with few
heterogeneous clusters", 2016): Student's t on the differences of people who used both models, else
Welch's t on people's means. Where levels of task classes are estimated, each person is replaced by
a jackknife pseudo-value, which is the same number where the levels are known.

Errors of days are added to errors of people as Cameron, Gelbach and Miller do it ("Robust inference
with multiway clustering", 2011): what different people have in common on the same day.
"""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.task_mix import Levels, class_levels, mix_weights
from evaluation_pipelines.numerics.estimates import Codes, Numbers

UNKNOWN_PERSON = -1
"""Runs without a person form one unit, which does not count as a person."""

FEW_SHARED_DAYS = 0.5
"""With fewer runs than this on days of both models, how days differ is known less well."""

Chosen = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs of one model.

    Attributes:
        scores: 0-100, one per run.
        people: Person of each run, numbered alike for all models.
        classes: Task class of each run, numbered alike for all models.
        days: Day of each run, numbered alike for all models.
    """

    scores: Numbers
    people: Codes
    classes: Codes
    days: Codes

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.scores)

    @property
    def known_people(self) -> Codes:
        """The people, without the unknown one."""
        found: Codes = np.unique(self.people[self.people != UNKNOWN_PERSON])
        return found

    def only(self, chosen: Chosen) -> "Arm":
        """Return some of the runs."""
        return Arm(
            self.scores[chosen], self.people[chosen], self.classes[chosen], self.days[chosen]
        )


@dataclass(frozen=True, slots=True)
class Inference:
    """A figure in points, its standard error, and the degrees of freedom; 0 if unknown."""

    value: float
    error: float = 0.0
    freedom: float = 0.0


def mean_of_people(arm: Arm) -> Inference:
    """Return the mean of people's means."""
    units, people = np.unique(arm.people, return_inverse=True)
    sizes = np.bincount(people)
    means = np.bincount(people, weights=arm.scores) / sizes
    value, groups = float(means.mean()), len(units)
    if groups < 2:
        return Inference(value)
    shares = (arm.scores - value) / sizes[people] / groups
    days = len(np.unique(arm.days))
    between = _common(shares, people, arm.days, days), days
    return _with_days(value, float(means.var(ddof=1)) / groups, groups - 1, between)


def paired_difference(first: Arm, second: Arm) -> Inference:
    """Return the mean of people's own differences; all people used both models."""
    runs = _Runs.of(first, second, np.concatenate([first.people, second.people]))
    plain, parts = runs.cell_means()
    apart = _Stratum(plain[:, 0] - plain[:, 1], parts[:, 0] - parts[:, 1], runs.levels.without)
    value, groups = float(apart.values(runs.levels.all).mean()), len(plain)
    if groups < 2:
        return Inference(value)
    variance = apart.variance(apart.left_out())
    fitted = (plain - parts @ runs.levels.all).mean(axis=1)[runs.units]
    errors = runs.adjusted() - fitted - np.where(runs.side == 0, value / 2, -value / 2)
    return _with_days(value, variance, groups - 1, runs.between_people(errors, [groups, groups]))


def apart_difference(first: Arm, second: Arm) -> Inference:
    """Return the difference of the means of people's means."""
    # A person on both sides counts as two: that makes errors larger, never smaller.
    runs = _Runs.of(first, second, np.concatenate([2 * first.people, 2 * second.people + 1]))
    plain, parts = runs.cell_means()
    is_first = ~np.isnan(plain[:, 0])
    strata = [
        _Stratum(plain[chosen, side], parts[chosen, side], runs.levels.without[chosen])
        for side, chosen in enumerate((is_first, ~is_first))
    ]
    means = [float(each.values(runs.levels.all).mean()) for each in strata]
    groups = [len(each.plain) for each in strata]
    value = means[0] - means[1]
    if min(groups) < 2:
        return Inference(value)
    variances = [
        each.variance(each.left_out() - other.shifted(each.without))
        for each, other in zip(strata, reversed(strata), strict=True)
    ]
    freedom = sum(variances) ** 2 / max(
        sum(part**2 / (number - 1) for part, number in zip(variances, groups, strict=True)), 1e-300
    )
    errors = runs.adjusted() - np.asarray(means)[runs.side]
    between = runs.between_people(errors, groups)
    return _with_days(value, sum(variances), max(freedom, 1.0), between)


@dataclass(frozen=True, slots=True)
class _Stratum:
    """Units whose mean is taken: their plain figures, and their shares of task classes."""

    plain: Numbers
    parts: Numbers
    without: Numbers

    def values(self, levels: Numbers) -> Numbers:
        """Return the figures of the units at the level of the first class."""
        return np.asarray(self.plain - self.parts @ levels)

    def left_out(self) -> Numbers:
        """Return the mean without each of the units."""
        rest = self.parts.sum(axis=0) - self.parts
        left = self.plain.sum() - self.plain - (rest * self.without).sum(axis=1)
        return np.asarray(left / (len(self.plain) - 1))

    def shifted(self, levels: Numbers) -> Numbers:
        """Return the mean for each row of levels."""
        return np.asarray(self.plain.mean() - levels @ self.parts.mean(axis=0))

    @staticmethod
    def variance(left_out: Numbers) -> float:
        """Return the variance of a figure from its values without each of the units."""
        return float(left_out.var(ddof=1)) * (len(left_out) - 1) ** 2 / len(left_out)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of both sides together; units and classes are numbered from 0 on."""

    scores: Numbers
    side: Codes
    classes: Codes
    units: Codes
    days: Codes
    weights: Numbers
    levels: Levels

    @classmethod
    def of(cls, first: Arm, second: Arm, units: Codes) -> "_Runs":
        """Put two sides together."""
        side = np.repeat([0, 1], [len(first), len(second)])
        scores = np.concatenate([first.scores, second.scores])
        _, classes = np.unique(np.concatenate([first.classes, second.classes]), return_inverse=True)
        _, codes = np.unique(units, return_inverse=True)
        return cls(
            scores,
            side,
            classes,
            codes,
            np.concatenate([first.days, second.days]),
            mix_weights(side, classes),
            class_levels(scores, side, classes, codes),
        )

    def adjusted(self) -> Numbers:
        """Return the scores at the level of the first class."""
        levels = np.concatenate([[0.0], self.levels.all])
        return np.asarray(self.scores - levels[self.classes])

    def _cells(self) -> Codes:
        return 2 * self.units + self.side

    def cell_means(self) -> tuple[Numbers, Numbers]:
        """Return plain means by unit and side (NaN without runs), and the shares of classes."""
        groups, number = int(self.units.max()) + 1, int(self.classes.max()) + 1
        cells, size = self._cells(), 2 * groups
        weights = np.bincount(cells, weights=self.weights, minlength=size)
        sums = np.bincount(cells, weights=self.weights * self.scores, minlength=size)
        shares = np.bincount(
            cells * number + self.classes, weights=self.weights, minlength=size * number
        ).reshape(size, number)
        with np.errstate(invalid="ignore"):
            plain, parts = sums / weights, (shares / weights[:, None])[:, 1:]
        return plain.reshape(groups, 2), parts.reshape(groups, 2, number - 1)

    def between_people(self, errors: Numbers, groups: list[int]) -> tuple[float, int]:
        """Return what units have in common on the same day, and the number of days."""
        days = [np.unique(self.days[self.side == side]) for side in (0, 1)]
        both = np.intersect1d(days[0], days[1])
        smallest = min(len(each) for each in days)
        # Models of unlike days: each side has only its own to see by how much days differ.
        is_apart = float(np.isin(self.days, both).mean()) < FEW_SHARED_DAYS
        weights = np.bincount(self._cells(), weights=self.weights)[self._cells()]
        signs = np.where(self.side == 0, 1.0, -1.0) / np.asarray(groups)[self.side]
        shares = signs * self.weights / weights * errors
        number = smallest if is_apart else len(np.union1d(days[0], days[1]))
        return _common(shares, self.units, self.days, smallest), number


def _common(shares: Numbers, units: Codes, days: Codes, number: int) -> float:
    """Return the variance that different units add to each other on the same day.

    Args:
        shares: What each run adds to the error of the figure.
        units: Unit of each run, from 0 on.
        days: Day of each run.
        number: Number of days; those of the side that has fewer, since each has a mean of its own.
    """
    if number < 2:
        return 0.0
    _, codes = np.unique(days, return_inverse=True)
    by_day = np.bincount(codes, weights=shares)
    _, cells = np.unique(codes * (int(units.max()) + 1) + units, return_inverse=True)
    within = np.bincount(cells, weights=shares)
    return (float(by_day @ by_day) - float(within @ within)) * number / (number - 1)


def _with_days(
    value: float, variance: float, freedom: float, between: tuple[float, int]
) -> Inference:
    """Return the figure with the errors of people and, where they add to it, of days."""
    common, days = between
    if common > 0:
        variance, freedom = variance + common, min(freedom, days - 1)
    return Inference(value, float(np.sqrt(variance)), freedom)
