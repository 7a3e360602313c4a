"""What has expired on a day: by session date, or by the day on which something was read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.schemas import (
    JUDGE_SCORES,
    SCORECARDS,
    TOOL_REPORT_TEXTS,
    TOOL_REPORTS,
    Table,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """Days for which each kind of data is kept; None: for good."""

    texts: int | None = None
    events: int | None = None
    sessions: int | None = None
    quarantine: int | None = None
    landing: int | None = None

    def first_kept(self, kind: str, today: date) -> date | None:
        """Return the first day that is kept of a kind; None if all are."""
        days: int | None = getattr(self, kind)
        return None if days is None else today - timedelta(days=days)

    def has_expired(self, kind: str, day: date, today: date) -> bool:
        """Return True if a day of a kind is older than what is kept."""
        first = self.first_kept(kind, today)
        return first is not None and day < first


@dataclass(frozen=True, slots=True)
class DuePlan:
    """Session dates of which something is to be deleted, oldest first, each in one list."""

    sessions: list[date] = field(default_factory=list)
    events: list[date] = field(default_factory=list)
    texts: list[date] = field(default_factory=list)


def plan_expiry(
    kept: Kept, today: date, sessions: Iterable[date], events: Iterable[date], texts: Iterable[date]
) -> DuePlan:
    """Return what has expired.

    Args:
        kept: How long what is kept.
        today: The UTC day.
        sessions: Dates with anything at all.
        events: Dates with events.
        texts: Dates with texts.
    """
    gone = {day for day in sessions if kept.has_expired("sessions", day, today)}
    without_events = {day for day in events if kept.has_expired("events", day, today)} - gone
    # Texts go with their events.
    without_texts = {day for day in texts if kept.has_expired("texts", day, today)}
    return DuePlan(
        sorted(gone), sorted(without_events), sorted(without_texts - without_events - gone)
    )


TEXT_COLUMNS = {
    JUDGE_SCORES.name: ("score_analysis", "missing_tools_analysis", "failed_reply"),
    SCORECARDS.name: ("reasoning",),
}
"""Columns with texts, by table; event texts are a table of their own."""


def without_texts(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return rows of a table with null in place of texts."""
    if table is TOOL_REPORTS:
        return rows.with_columns(
            pl.col(column).list.eval(
                pl.element().struct.with_fields(
                    *(pl.lit(None, pl.String).alias(name) for name in names)
                )
            )
            for column, names in TOOL_REPORT_TEXTS.items()
        ).cast(table.schema)
    nulls = (pl.lit(None, pl.String).alias(name) for name in TEXT_COLUMNS.get(table.name, ()))
    return rows.with_columns(nulls)
