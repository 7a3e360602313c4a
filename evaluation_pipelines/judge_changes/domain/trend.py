"""Means over time on both sides of a change."""

from dataclasses import dataclass
from datetime import date, timedelta

import polars as pl

PERIOD = timedelta(days=4)
"""Length of a period; none lies on both sides of the change."""

FEWEST_SCORES = 3
"""A period with fewer scores has no point."""


@dataclass(frozen=True, slots=True)
class Point:
    """Mean score of the sessions of a period.

    Attributes:
        middle: Days from the change to the middle of the period; negative before it.
        mean: Mean score.
        sessions: Number of sessions.
    """

    middle: float
    mean: float
    sessions: int


def points(scores: pl.DataFrame, changed_on: date) -> list[Point]:
    """Return the means of the periods of ``scores``, in order of time.

    Args:
        scores: ``session_date`` and ``total_score``.
        changed_on: First day of the new judge: a period begins on it.
    """
    days = PERIOD.days
    offset = (pl.col("session_date") - changed_on).dt.total_days()
    grouped = (
        scores.group_by(period=offset.floordiv(days))
        .agg(pl.col("total_score").mean(), pl.len().alias("sessions"))
        .filter(pl.col("sessions") >= FEWEST_SCORES)
        .sort("period")
    )
    return [
        Point((period + 0.5) * days, mean, sessions)
        for period, mean, sessions in grouped.iter_rows()
    ]
