"""Outcomes of the sessions of the last days, and records that were not stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED
from evaluation_pipelines.service.pages.domain.days import DayRange, day_range
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.views.sessions import state_counts

QUARANTINE_DAYS = 7

MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class RecentStates:
    """Sessions of some days, and their outcomes.

    Attributes:
        days: The days.
        sessions: Number of all, be there books of their day or not.
        scored: Number of those with an effective score.
        states: Number of sessions of each state, of the days with books.
        without_books: Days, the newest first, and number of their sessions that no books have:
            books that do not balance are not written.
    """

    days: DayRange
    sessions: int
    scored: int
    states: Sequence[tuple[str, int]]
    without_books: Sequence[tuple[date, int]] = ()


@dataclass(frozen=True, slots=True)
class NotStored:
    """Records that were read in the last days, and stored nowhere.

    Attributes:
        parts: Number and words of each kind there is.
        since: First of the days.
    """

    parts: Sequence[tuple[int, str]]
    since: date


def not_stored(visit: Visit) -> NotStored | None:
    """Return what was read and not stored; ``None`` without any, and for one organization.

    Like what cannot be read it belongs to no organization, and it has no day but the one on which
    it was read.
    """
    if visit.caller.organization is not None:
        return None
    today, batches = visit.installation.clock().date(), IngestBatches(visit.stores.ledger)
    since = today - timedelta(days=QUARANTINE_DAYS)
    kinds = _kinds_not_stored(_read_on(batches, since, today))
    if not kinds:
        return None
    return NotStored(kinds, since)


def _read_on(batches: IngestBatches, first: date, last: date) -> IngestCounts:
    """Return the counts of what was read from one day to another."""
    ends = (first, last + timedelta(days=1))
    return batches.totals(*(datetime.combine(each, time(), UTC) for each in ends))


def names_not_stored(visit: Visit) -> list[tuple[str, str, int]]:
    """Return sender, name and number of records that were not stored, most first.

    They belong to no organization: for callers of one organization there are none.
    """
    if visit.caller.organization is not None:
        return []
    names = IngestBatches(visit.stores.ledger).names()
    found = [
        (source or "(unknown)", name or "(no name)", number)
        for (source, name), number in names.items()
    ]
    return sorted(found, key=lambda each: (-each[2], each))[:MOST_NAMES]


def _kinds_not_stored(read: IngestCounts) -> list[tuple[int, str]]:
    kinds = (
        (read.unknown_records, "unrecognized"),
        (read.repeated_records, "redundant"),
        (read.unattributed, "without a session"),
        (read.forgotten, "erased"),
    )
    return [(number, what) for number, what in kinds if number]


def recent_books(visit: Visit) -> pl.DataFrame:
    """Return the counts of the books of the last 28 complete days and today."""
    today = visit.installation.clock().date()
    days = day_range(None, None, today).dates | {today}
    return state_counts(visit.rows(), days)


def recent_states(visit: Visit, books: pl.DataFrame) -> RecentStates:
    """Return the outcomes of the sessions of the last 28 complete days.

    Args:
        visit: The visit.
        books: Counts of the books of these days, and of others.
    """
    days = day_range(None, None, visit.installation.clock().date())
    books = books.filter(pl.col("session_date").is_between(*days.ends))
    states = books.group_by("state").agg(pl.col("sessions").sum())
    most_first = states.sort("sessions", "state", descending=[True, False])
    rows = visit.rows().filter(pl.col("session_date").is_between(*days.ends))
    scored = rows.filter(IS_SCORED).height
    return RecentStates(days, rows.height, scored, most_first.rows(), _without_books(rows, books))


def _without_books(rows: pl.DataFrame, books: pl.DataFrame) -> list[tuple[date, int]]:
    """Return days whose books have fewer sessions than there are, and how many they lack."""
    booked = books.group_by("session_date").agg(booked=pl.col("sessions").sum())
    found = (
        rows.group_by("session_date")
        .agg(sessions=pl.len().cast(pl.Int64))
        .join(booked, on="session_date", how="left")
        .select("session_date", missing=pl.col("sessions") - pl.col("booked").fill_null(0))
        .filter(pl.col("missing") > 0)
    )
    return found.sort("session_date", descending=True).rows()
