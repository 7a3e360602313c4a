"""What runs would have scored in the days before: levels of task classes and of people."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.numerics.estimates import Numbers

SHRINKAGE = 1.0
"""Variance of runs over that of the levels of task classes and of people. Those with few runs are
drawn to the level of all; new ones are taken to differ from it as much as runs do, so that they
raise hardly any alert before they are known."""


@dataclass(frozen=True)
class Levels:
    """How many task classes and people are told apart; their numbers in an ``Arm`` are smaller."""

    classes: int
    people: int

    def counts(self, runs: Arm, values: Numbers | None = None) -> Numbers:
        """Return the number of runs, of each class and of each person; or the sums of values."""
        everything = float(len(runs)) if values is None else float(values.sum())
        of_classes = np.bincount(runs.classes, values, minlength=self.classes)
        of_people = np.bincount(runs.people, values, minlength=self.people)
        return np.concatenate([[everything], of_classes, of_people])

    def of_runs(self, runs: Arm, levels: Numbers) -> Numbers:
        """Return the sum of the levels that apply to each run."""
        of_class = levels[1 + runs.classes]
        return np.asarray(levels[0] + of_class + levels[1 + self.classes + runs.people])


@dataclass(frozen=True)
class ExpectedScores:
    """Levels in some runs, as best linear unbiased predictions.

    Henderson, "Best linear unbiased estimation and prediction under a selection model", 1975:
    ``(X'X + R) b = X'y``, where R is 0 for the level in common and ``SHRINKAGE`` for the others.

    Attributes:
        runs: The runs.
        levels: Which levels are told apart.
    """

    runs: Arm
    levels: Levels

    @cached_property
    def products(self) -> Numbers:
        """``X'X``: runs that two levels share."""
        of, (classes, people) = self.levels, (self.levels.classes, self.levels.people)
        counts = of.counts(self.runs)
        cells = self.runs.classes * people + self.runs.people
        found = np.diag(counts)
        found[0] = found[:, 0] = counts
        both = np.bincount(cells, minlength=classes * people).reshape(classes, people)
        found[1 : 1 + classes, 1 + classes :] = both
        found[1 + classes :, 1 : 1 + classes] = both.T
        return found

    @cached_property
    def inverse(self) -> Numbers:
        """Inverse of ``X'X + R``."""
        of = self.levels
        shrinkages = np.repeat([0.0, SHRINKAGE], [1, of.classes + of.people])
        return np.asarray(np.linalg.inv(self.products + np.diag(shrinkages)))

    @cached_property
    def values(self) -> Numbers:
        """The levels: that in common, of classes, of people."""
        return np.asarray(self.inverse @ self.levels.counts(self.runs, self.runs.scores))

    @cached_property
    def by_day(self) -> Numbers:
        """How many runs of each day (rows, from the first one on) have each level."""
        of, days = self.levels, self.runs.days - self.runs.days.min()
        number, sizes = int(days.max()) + 1, (1, of.classes, of.people)
        codes = (np.zeros_like(days), self.runs.classes, self.runs.people)
        parts = [
            np.bincount(days * size + code, minlength=number * size).reshape(number, size)
            for size, code in zip(sizes, codes, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def of_runs(self, runs: Arm) -> Numbers:
        """Return the expected score of each run."""
        return self.levels.of_runs(runs, self.values)

    def weights(self, runs: Arm) -> tuple[Numbers, float]:
        """Return how the mean expected score of some runs was made.

        Returns:
            The weight of all runs of each day, and the variance of the mean in units of the
            variance of a run: that of the estimates, and that of people and classes not seen.
        """
        shares = self.levels.counts(runs) / len(runs)
        solved = self.inverse @ shares
        return self.by_day @ solved, float(shares @ solved)
