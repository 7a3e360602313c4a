"""Difference of two means: plain, and with the same mix of tasks on both sides."""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.numerics.estimates import (
    Codes,
    Numbers,
    jackknife_error,
    t_quantile,
    two_sided_p,
)


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs of one side.

    Attributes:
        scores: 0-100, one per run.
        classes: Task class of each run, numbered alike on both sides.
        clusters: Cluster of each run, numbered alike: one user may work with both models.
    """

    scores: Numbers
    classes: Codes
    clusters: Codes

    @property
    def cluster_count(self) -> int:
        """Number of clusters of the side."""
        return len(np.unique(self.clusters))


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second, with a 95 % interval and the p-value of the same error.

    None if there is nothing to compare, or no variance.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    error: float | None = None


def difference(first: Arm, second: Arm, *, clustered: bool) -> Difference:
    """Return the difference of the mean scores.

    Without clusters Welch's t ("The generalization of 'Student's' problem when several different
    population variances are involved", 1947); with clusters the delete-a-cluster jackknife, which
    accounts for users of both models.
    """
    if clustered:
        return _jackknife(_one_class(first), _one_class(second), clustered=True)
    if min(len(first.scores), len(second.scores)) < 2:
        return Difference(_raw(first, second))
    if np.ptp(first.scores) == 0 and np.ptp(second.scores) == 0:
        return Difference(_raw(first, second))
    from scipy.stats import ttest_ind

    result = ttest_ind(first.scores, second.scores, equal_var=False)
    low, high = result.confidence_interval(0.95)
    value = _raw(first, second)
    error = (float(high) - value) / t_quantile(float(result.df))
    return Difference(value, float(low), float(high), float(result.pvalue), error)


def adjusted_difference(first: Arm, second: Arm, *, clustered: bool) -> Difference:
    """Return the difference within task classes, weighted by the shares of both sides together.

    Direct standardization over the classes that both sides have. The error is the delete-one
    jackknife of the whole figure, by clusters or runs, so it includes the uncertainty of the
    shares.
    """
    return _jackknife(first, second, clustered=clustered)


def shared_classes(first: Arm, second: Arm) -> tuple[int, float]:
    """Return the number of classes on both sides, and the share of all runs in them."""
    both = np.intersect1d(first.classes, second.classes)
    classes = np.concatenate([first.classes, second.classes])
    return len(both), float(np.isin(classes, both).mean())


def _raw(first: Arm, second: Arm) -> float:
    return float(first.scores.mean() - second.scores.mean())


def _one_class(arm: Arm) -> Arm:
    return Arm(arm.scores, np.zeros_like(arm.classes), arm.clusters)


def _jackknife(first: Arm, second: Arm, *, clustered: bool) -> Difference:
    """Return the jackknife difference; degrees of freedom are those of the smaller side."""
    units, freedom = _units(first, second, clustered=clustered)
    sums, counts = _cells(first, second, units)
    value = float(_standardised(sums.sum(axis=0), counts.sum(axis=0)))
    without = _standardised(sums.sum(axis=0) - sums, counts.sum(axis=0) - counts)
    if np.isnan(value):
        return Difference()
    if freedom < 1 or np.isnan(without).any():
        return Difference(value)
    error = jackknife_error(without)
    if error < 1e-9:
        return Difference(value)
    half = t_quantile(freedom) * error
    p = two_sided_p(value, error, freedom)
    return Difference(value, value - half, value + half, p, error)


def _units(first: Arm, second: Arm, *, clustered: bool) -> tuple[Codes, int]:
    """Return the units to leave out one by one, and the degrees of freedom."""
    if clustered:
        units = np.concatenate([first.clusters, second.clusters])
        return units, min(first.cluster_count, second.cluster_count) - 1
    runs = len(first.scores), len(second.scores)
    return np.arange(sum(runs)), min(runs) - 1


def _cells(first: Arm, second: Arm, units: Codes) -> tuple[Numbers, Numbers]:
    """Return sums and counts of the scores by unit, class and side."""
    classes = np.concatenate([first.classes, second.classes])
    side = np.repeat([0, 1], [len(first.scores), len(second.scores)])
    _, rows = np.unique(units, return_inverse=True)
    shape = int(rows.max()) + 1, int(classes.max()) + 1, 2
    cells = np.ravel_multi_index((rows, classes, side), shape)
    scores = np.concatenate([first.scores, second.scores])
    size = int(np.prod(shape))
    return (
        np.bincount(cells, weights=scores, minlength=size).reshape(shape).astype(np.float64),
        np.bincount(cells, minlength=size).reshape(shape).astype(np.float64),
    )


def _standardised(sums: Numbers, counts: Numbers) -> Numbers:
    """Return the weighted difference over the last two axes, class and side; NaN without any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / counts
        both = (counts > 0.5).all(axis=-1)
        weights = np.where(both, counts.sum(axis=-1), 0.0)
        apart = np.where(both, means[..., 0] - means[..., 1], 0.0)
        found: Numbers = (weights * apart).sum(axis=-1) / weights.sum(axis=-1)
    return found
