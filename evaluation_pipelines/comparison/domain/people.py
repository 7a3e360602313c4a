"""Means and differences of scores in which people weigh the same, for the same mix of tasks.

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
from functools import cached_property

import numpy as np

from evaluation_pipelines.numerics.estimates import Codes, Numbers

WORKING_CORRELATION = 0.2
"""Correlation of a person's runs that the levels are estimated with. Any value gives levels that
are right on average (Liang and Zeger, "Longitudinal data analysis using generalized linear
models", 1986); the errors do not rely on it."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of task classes relative to the first one.

    Attributes:
        all: One per other class, estimated from all units.
        without: One row per unit: the same without that unit.
    """

    all: Numbers
    without: Numbers


def mix_weights(side: Codes, classes: Codes) -> Numbers:
    """Return weights of runs that give both sides the class shares of both together.

    Direct standardization: the pooled share of the run's class over its share on its side.

    Args:
        side: 0 or 1 for each run.
        classes: Task class of each run from 0 on; each class is on both sides.
    """
    counts = np.bincount(2 * classes + side, minlength=2 * (int(classes.max()) + 1)).reshape(-1, 2)
    pooled = counts.sum(axis=1, keepdims=True) / len(side)
    weights: Numbers = (pooled / (counts / counts.sum(axis=0)))[classes, side]
    return weights


def class_levels(scores: Numbers, side: Codes, classes: Codes, units: Codes) -> Levels:
    """Estimate the levels of task classes by generalized least squares.

    Scores are explained by side and task class; runs of one unit have ``WORKING_CORRELATION``.

    Args:
        scores: 0-100, one per run.
        side: 0 or 1 for each run.
        classes: Task class of each run, from 0 on.
        units: Unit of each run, from 0 on.
    """
    number, groups = int(classes.max()) + 1, int(units.max()) + 1
    if number == 1:
        return Levels(np.zeros(0), np.zeros((groups, 0)))
    products, moments = _by_unit(scores, side, classes, units)
    whole = np.linalg.pinv(products.sum(axis=0), rcond=1e-10) @ moments.sum(axis=0)
    left = np.linalg.pinv(products.sum(axis=0) - products, rcond=1e-10)
    without = np.einsum("gij,gj->gi", left, moments.sum(axis=0) - moments)
    return Levels(whole[2:], without[:, 2:])


def _by_unit(scores: Numbers, side: Codes, classes: Codes, units: Codes) -> tuple[Numbers, Numbers]:
    """Return what each unit adds to the normal equations: ``X'WX`` and ``X'Wy``.

    W is the inverse of a matrix with equal correlations, up to a factor: the identity less
    ``r / (1 - r + n r)`` in every cell of a unit with n runs.
    """
    number, groups = int(classes.max()) + 1, int(units.max()) + 1
    shape = (groups, 2, number)
    cells = np.ravel_multi_index((units, side, classes), shape)
    counts = np.bincount(cells, minlength=groups * 2 * number).reshape(shape).astype(np.float64)
    sums = np.bincount(cells, weights=scores, minlength=groups * 2 * number).reshape(shape)
    columns = np.concatenate([counts.sum(axis=2), counts.sum(axis=1)[:, 1:]], axis=1)
    moments = np.concatenate([sums.sum(axis=2), sums.sum(axis=1)[:, 1:]], axis=1)
    products = columns[:, :, None] * np.eye(number + 1)
    products[:, :2, 2:] = counts[:, :, 1:]
    products[:, 2:, :2] = counts[:, :, 1:].transpose(0, 2, 1)
    runs = counts.sum(axis=(1, 2))
    shrunk = WORKING_CORRELATION / (1 - WORKING_CORRELATION + runs * WORKING_CORRELATION)
    products -= shrunk[:, None, None] * columns[:, :, None] * columns[:, None, :]
    moments = moments - (shrunk * sums.sum(axis=(1, 2)))[:, None] * columns
    return products, moments


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
        people: Person of each run, with the same numbers for all models.
        classes: Task class of each run, with the same numbers for all models.
        days: Day of each run, with the same numbers for all models.
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

    def only(self, chosen: Chosen | slice) -> "Arm":
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


def people_mean(arm: Arm) -> Inference:
    """Return the mean of people's means."""
    units, people = np.unique(arm.people, return_inverse=True)
    sizes = np.bincount(people)
    means = np.bincount(people, weights=arm.scores) / sizes
    value, groups = float(means.mean()), len(units)
    if groups < 2:
        return Inference(value)
    shares = (arm.scores - value) / sizes[people] / groups
    days = len(np.unique(arm.days))
    between = _common(shares, people, arm.days) * _of_centered(days), days
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
    common, days = runs.between_people(errors, [groups, groups])
    if runs.are_days_apart:
        common = (common + variance * runs.hidden_by_difference(groups)) * runs.day_error_factor()
    else:
        common *= _of_centered(runs.fewest_days)
    return _with_days(value, variance, groups - 1, (common, days))


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
    means = [float(stratum.values(runs.levels.all).mean()) for stratum in strata]
    groups = [len(stratum.plain) for stratum in strata]
    value = means[0] - means[1]
    if min(groups) < 2:
        return Inference(value)
    variances = [
        stratum.variance(stratum.left_out() - other.shifted(stratum.without))
        for stratum, other in zip(strata, reversed(strata), strict=True)
    ]
    freedom = sum(variances) ** 2 / max(
        sum(part**2 / (number - 1) for part, number in zip(variances, groups, strict=True)), 1e-300
    )
    errors = runs.adjusted() - np.asarray(means)[runs.side]
    common, days = runs.between_people(errors, groups)
    between = common * _of_centered(runs.fewest_days), days
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


@dataclass(frozen=True)
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

    @cached_property
    def _side_days(self) -> list[Codes]:
        return [np.unique(self.days[self.side == side]) for side in (0, 1)]

    @property
    def fewest_days(self) -> int:
        """Number of days of the side that has fewer; each side has a mean of its own."""
        return min(map(len, self._side_days))

    @property
    def are_days_apart(self) -> bool:
        """True if few runs are on days of both sides."""
        first, second = self._side_days
        both = np.intersect1d(first, second)
        return float(np.isin(self.days, both).mean()) < FEW_SHARED_DAYS

    def _cell_shares(self) -> Numbers:
        """Return the share of each run in the mean of its unit and side."""
        cells = self._cells()
        return np.asarray(self.weights / np.bincount(cells, weights=self.weights)[cells])

    def between_people(self, errors: Numbers, groups: list[int]) -> tuple[float, int]:
        """Return what units have in common on the same day, and the number of days.

        Args:
            errors: Error of each run.
            groups: Units of each side.
        """
        signs = np.where(self.side == 0, 1.0, -1.0) / np.asarray(groups)[self.side]
        # Models of unlike days: each side has only its own to see by how much days differ.
        number = self.fewest_days if self.are_days_apart else len(np.unique(self.days))
        return _common(signs * self._cell_shares() * errors, self.units, self.days), number

    def hidden_by_difference(self, groups: int) -> float:
        """Return what different people seem to have less in common on a day, per unit of variance.

        Half of the estimated difference is taken out of each error: -2/4 + 1/4 of its variance.
        """
        return _common(self._cell_shares() / groups, self.units, self.days) / 4

    def day_error_factor(self) -> float:
        """Return by how much errors of days must be enlarged where people's means are taken out.

        A person's mean contains the days of that person's runs, and so takes a part of them out of
        the errors: with few runs each, more than half. Each day of each side is followed through
        the same calculation (as in the method of moments of Searle, Casella and McCulloch,
        "Variance components", 1992), and the variance that it adds is set against what is left.
        """
        _, days = np.unique(self.days, return_inverse=True)
        shape = (int(self.units.max()) + 1, 2, int(days.max()) + 1)
        cells = np.ravel_multi_index((self.units, self.side, days), shape)
        shares = np.bincount(cells, self._cell_shares(), int(np.prod(shape))).reshape(shape)
        signs = np.array([1.0, -1.0])
        apart, both = np.tensordot(signs, shares, (0, 1)), shares.sum(axis=1)
        whole = left = 0.0
        for side, day in np.ndindex(shape[1:]):
            own = shares[:, side, day]
            errors = -(apart * own[:, None] + both * signs[side] * own.mean()) / 2
            errors[:, day] += signs[side] * own
            left += float(np.sum(errors.sum(axis=0) ** 2) - np.sum(errors**2))
            whole += float(own.sum() ** 2 - own @ own)
        return whole / left if whole > 0 and left > 0 else _of_centered(self.fewest_days)


def _of_centered(days: int) -> float:
    """Return by how much errors of some days must be enlarged that add up to 0."""
    return days / (days - 1) if days > 1 else 0.0


def _common(shares: Numbers, units: Codes, days: Codes) -> float:
    """Return the variance that different units add to each other on the same day.

    Args:
        shares: What each run adds to the error of the figure.
        units: Unit of each run, from 0 on.
        days: Day of each run.
    """
    _, codes = np.unique(days, return_inverse=True)
    by_day = np.bincount(codes, weights=shares)
    _, cells = np.unique(codes * (int(units.max()) + 1) + units, return_inverse=True)
    within = np.bincount(cells, weights=shares)
    return float(by_day @ by_day) - float(within @ within)


def _with_days(
    value: float, variance: float, freedom: float, between: tuple[float, int]
) -> Inference:
    """Return the figure with the errors of people and, where they add to it, of days."""
    common, days = between
    if common > 0:
        variance, freedom = variance + common, min(freedom, days - 1)
    return Inference(value, float(np.sqrt(variance)), freedom)
