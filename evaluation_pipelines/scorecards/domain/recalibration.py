"""When a profile needs recalibration: its corrections lean one way beyond chance.

A sequential sign test, valid however often one looks. If a correction made the score lower as often
as higher, ``2^n times the integral of p^k (1 - p)^(n - k) over p from 0 to 1``, for k of n
corrections that made it lower, would be a martingale that starts at 1: the mixture of Robbins,
"Statistical methods related to the law of the iterated logarithm" (1970). By Ville's inequality it
ever reaches 1/a with a probability of at most a (Howard, Ramdas, McAuliffe and Sekhon,
"Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021).

Half of the error goes to all corrections of a profile version, half is divided among its criteria
(Bonferroni, which needs no independence).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import CONTENT_KEY

FALSE_NOTICES = 0.05
"""Probability that a profile version without a lean ever has a notice."""

_VERSION = ("profile_id", "profile_version")


@dataclass(frozen=True, slots=True)
class Lean:
    """Corrections of a profile version: all of them, or those that name a criterion.

    Attributes:
        profile_id: The profile.
        profile_version: Its version.
        criterion_id: The criterion; ``None`` for all corrections.
        corrections: Number of corrected session contents.
        too_high: Number of them whose automatic score was above the human one.
        annotators: Number of people who made them.
        required: Evidence that counts as beyond chance.
    """

    profile_id: str
    profile_version: int
    criterion_id: str | None
    corrections: int
    too_high: int
    annotators: int
    required: float

    @property
    def is_beyond_chance(self) -> bool:
        """True if the corrections lean one way beyond chance."""
        return evidence(self.corrections, self.too_high) >= self.required

    @property
    def notice(self) -> str:
        """The lean as a sentence without a period."""
        lowered = self.too_high * 2 > self.corrections
        count = self.too_high if lowered else self.corrections - self.too_high
        criterion = "" if self.criterion_id is None else f", criterion {self.criterion_id}"
        people = "1 person" if self.annotators == 1 else f"{self.annotators} people"
        return (
            f"recalibrate {self.profile_id} version {self.profile_version}{criterion}: {count} of "
            f"{self.corrections} corrections (by {people}) made the score "
            f"{'lower' if lowered else 'higher'}, which is beyond chance"
        )


def leans(overrides: pl.DataFrame, criteria: Mapping[tuple[str, int], int]) -> list[Lean]:
    """Return the lean of each corrected profile version, and of each criterion named there.

    Confirmations do not count. Of each session content the first correction counts, in all and of
    each criterion: a later one, which can follow from it, would spoil the sequence.

    Args:
        overrides: OVERRIDES.
        criteria: Number of criteria by profile id and version.
    """
    error = (pl.col("automatic_100") - pl.col("override_100")).round(9)
    corrections = (
        overrides.with_columns(error=error)
        .filter(pl.col("error") != 0)
        .sort("made_at", pl.col("override_id").cast(pl.Int64))
    )
    every = _counted(corrections.with_columns(criterion_id=pl.lit(None, pl.String)))
    named = _counted(corrections.filter(pl.col("criterion_id").is_not_null()))
    found = pl.concat([every, named]).sort(*_VERSION, "criterion_id", nulls_last=False)
    return [
        Lean(**row, required=_required(row["criterion_id"], criteria[_version(row)]))
        for row in found.iter_rows(named=True)
    ]


def evidence(corrections: int, too_high: int) -> float:
    """Return the value of the martingale: how much likelier these counts are under some lean."""
    n, k = corrections, too_high
    log_choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    # The exponent of thousands of corrections in one direction is beyond a float.
    return math.exp(min(n * math.log(2) - math.log(n + 1) - log_choices, 700.0))


def _version(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["profile_id"], row["profile_version"]


def _required(criterion_id: str | None, criteria: int) -> float:
    return (2 if criterion_id is None else 2 * criteria) / FALSE_NOTICES


def _counted(corrections: pl.DataFrame) -> pl.DataFrame:
    group = (*_VERSION, "criterion_id")
    first = corrections.unique([*CONTENT_KEY, *group], keep="first", maintain_order=True)
    return first.group_by(group, maintain_order=True).agg(
        corrections=pl.len(),
        too_high=(pl.col("error") > 0).sum(),
        annotators=pl.col("annotator").n_unique(),
    )
