"""The same mix of tasks on both sides: levels of task classes, and weights of runs."""

from dataclasses import dataclass

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
