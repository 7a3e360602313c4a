"""Split of a shift of the mean score into the part of the judge and the part of the agents."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN, PEOPLE, SESSIONS
from evaluation_pipelines.judge_changes.domain.clustered import (
    Mean,
    Part,
    sum_of_means,
    weighted_mean,
)
from evaluation_pipelines.numerics.estimates import Codes

WIDE = 2.0
"""A half-width of the judge's part above this is said."""

WIDEST = 4.0
"""A half-width above this cuts the trend."""

FEWEST_PEOPLE = 5
"""Fewer people are said: the judge's part is an indication."""

Trend = Literal["bridged", "cut"]


@dataclass(frozen=True, slots=True)
class Split:
    """A shift of the mean score and its two parts, in points.

    Attributes:
        judges_part: Mean difference of the judges, new minus former, on the same sessions.
        before: Mean score before the change by the former judge; ``None`` without any.
        after: Mean score after it by the new judge; ``None`` without any.
        former: Mean score of the anchors by the former judge.
        new: Mean score of the anchors by the new judge.
        shift: Mean after minus mean before; ``None`` without scores on both sides.
        agents_part: What is left of the shift without the judge's part.
        clustered_by: What is taken to vary together.
    """

    judges_part: Mean
    before: Mean | None
    after: Mean | None
    former: Mean
    new: Mean
    shift: Mean | None
    agents_part: Mean | None
    clustered_by: str

    @property
    def trend(self) -> Trend:
        """Whether the scores before may be shifted to the scale of the new judge."""
        half = self.judges_part.half_width
        return "bridged" if half is not None and half <= WIDEST else "cut"


def split(anchors: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> Split:
    """Split the shift between two judges.

    Args:
        anchors: ``former_score``, ``new_score`` (means of the samples), ``weight``, ``person``
            (null if unknown), ``organization_id``, ``session_id``, ``session_date``; at least one.
        before: ``total_score`` by the former judge of the sessions before the change, and the
            columns of people and sessions.
        after: The same by the new judge of those after it.
    """
    units, clustered_by = _units(anchors, before, after)
    people, of_before, of_after = units
    weights = anchors["weight"].to_numpy()
    former, new = (anchors[name].to_numpy() for name in ("former_score", "new_score"))
    less, minus = _part(before, of_before, -1), Part(new - former, weights, people, -1)
    more = _part(after, of_after, 1)
    has_both = not (before.is_empty() or after.is_empty())
    return Split(
        weighted_mean(new - former, weights, people),
        None if before.is_empty() else weighted_mean(less.values, less.weights, of_before),
        None if after.is_empty() else sum_of_means([more]),
        weighted_mean(former, weights, people),
        weighted_mean(new, weights, people),
        sum_of_means([more, less]) if has_both else None,
        sum_of_means([more, less, minus]) if has_both else None,
        clustered_by,
    )


def _part(scores: pl.DataFrame, people: Codes, sign: int) -> Part:
    values = scores["total_score"].to_numpy().astype(np.float64)
    return Part(values, np.ones(len(values)), people, sign)


def _units(*frames: pl.DataFrame) -> tuple[list[Codes], str]:
    """Return what varies together in each frame: people, or sessions and days if too few are known.

    A session id is one within its organization; a person may be in several.
    """
    unknown = sum(each["person"].null_count() for each in frames)
    has_people = unknown <= LARGEST_UNKNOWN * sum(each.height for each in frames)
    session = pl.concat_str(
        "organization_id", "session_id", pl.col("session_date").cast(pl.String), separator="\0"
    )
    texts = [each.select(unit="person" if has_people else session) for each in frames]
    sizes = [each.height for each in texts]
    numbered = pl.concat(texts)["unit"].rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)
    ends = np.cumsum(sizes)
    numbers = numbered.to_numpy()
    codes = [numbers[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return codes, PEOPLE if has_people else SESSIONS
