"""Books of a day, outcomes of recent sessions, and records that were not stored.

In the books every session is in one state, and all counts add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, TypeAlias

import polars as pl
from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.reporting.books import BeingBuiltError, settled_books
from evaluation_pipelines.reporting.domain.book_states import STATES
from evaluation_pipelines.reporting.domain.books import DayBooks
from evaluation_pipelines.schemas import AGENT_SESSIONS, EVALUATION_BOOKS, SESSION_KEY
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, REVIEW_DUE, WAITS
from evaluation_pipelines.service.errors import not_found
from evaluation_pipelines.service.kept import BUILD_PATIENCE_S, PATIENCE_S
from evaluation_pipelines.service.pages.domain.days import DayRange, day_range
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_order, download
from evaluation_pipelines.service.routes.common import RequestDate
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.views.listing import BOOK_LISTING
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
    return batches.totals(*(datetime.combine(end, time(), UTC) for end in ends))


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
    return sorted(found, key=lambda row: (-row[2], row))[:MOST_NAMES]


def _kinds_not_stored(read: IngestCounts) -> list[tuple[int, str]]:
    kinds = (
        (read.unknown_records, "unrecognized"),
        (read.repeated_records, "repeated"),
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


ROUTER = APIRouter(include_in_schema=False)

_LIMIT, _MOST_REASONS = 100, 5

_USUAL_ORDER = "session"

CSV_COLUMNS = (
    *("organization_id", "session_key", "started_at", "agent_id", "source_cli", "model"),
    *("classification_label", "state", "reason", "what_next", "profile_id"),
    *("effective_100", "effective_source", "scorings", "judge_cost_usd", WAITS),
)
"""Columns of a downloaded list, as in the analysts' database."""

_Day: TypeAlias = Annotated[RequestDate | None, Query()]
_State: TypeAlias = Annotated[str | None, Query(max_length=40)]


@dataclass(frozen=True, slots=True)
class StateLine:
    """A state: what it means, how many sessions are in it, and their most frequent reasons."""

    state: str
    number: int
    meaning: str
    what_next: str
    reasons: tuple[tuple[str, int], ...]


@ROUTER.get("/operations/books")
def newest_books(visit: Visitor, day: _Day = None, state: _State = None) -> HTMLResponse:
    """Show the books of a day that the form names, or else of the newest one."""
    days = _days(visit)
    if not days and day is None:
        return visit.page("books", found=None, day=None, days=())
    return _page(visit, day or days[-1], days, state)


@ROUTER.get("/operations/books.csv")
def books_csv(visit: Visitor, day: RequestDate, state: _State = None) -> Response:
    """Return the sessions of the books of a day as CSV; with a state, those in it."""
    found = _books(visit, day, BUILD_PATIENCE_S)
    rows = _state_sessions(visit, found, state) if state else found.sessions.sort(SESSION_KEY)
    return download(f"books-{day}.csv", csv_text(rows.select(CSV_COLUMNS)))


@ROUTER.get("/operations/books/{day}")
def day_books(
    visit: Visitor, day: Annotated[RequestDate, Path()], state: _State = None
) -> HTMLResponse:
    """Show the books of a day; with a state, the sessions in it."""
    return _page(visit, day, _days(visit), state)


def _days(visit: Visit) -> list[date]:
    """Return the days with sessions that the visitor sees, and for all those that are built.

    Days whose books could not be closed are among them.
    """
    days = set(visit.rows()["session_date"].unique().to_list())
    if visit.organization is None:
        lake = visit.stores.lake
        days.update(lake.partitions(AGENT_SESSIONS), lake.partitions(EVALUATION_BOOKS))
    today = visit.installation.clock().date()
    return sorted(day for day in days if day <= today)


def _books(visit: Visit, day: date, patience_s: float) -> DayBooks:
    """Return the books of a day, with the sessions that the visitor sees; as settled_books."""
    read = visit.kept.compared_days.read
    found = settled_books(visit.stores, day, visit.installation.clock(), patience_s, read)
    return found.seen(visit.waiting, visit.organization)


def _state_sessions(visit: Visit, found: DayBooks, state: str) -> pl.DataFrame:
    """Return the sessions in a state, in the order that the URL asks for.

    Raises:
        ServiceError: 404, there is no such state; 400, no such order.
    """
    if state not in STATES:
        raise not_found("The state")
    rows = BOOK_LISTING.newest_first(found.sessions.filter(state=state))
    return BOOK_LISTING.in_order(rows, _order(visit))


def _order(visit: Visit) -> str:
    return asked_order(visit, BOOK_LISTING.orders, _USUAL_ORDER)


def _page(visit: Visit, day: date, days: list[date], state: str | None) -> HTMLResponse:
    if day > visit.installation.clock().date():
        return visit.page("books", found=None, day=day, days=days)
    try:
        found = _books(visit, day, PATIENCE_S)
    except BeingBuiltError:
        return visit.page("books", found=None, day=day, days=days, is_being_built=True)
    chosen = _state_sessions(visit, found, state) if state else found.sessions.clear()
    order = _order(visit)
    rows, cursor = BOOK_LISTING.page(
        chosen, order, visit.request.query_params.get("cursor"), _LIMIT
    )
    return visit.page(
        "books",
        found=found,
        day=day,
        days=days,
        is_built=day in days,
        scored=visit.rows().filter(IS_SCORED, session_date=day).height,
        lines=[_line(found, *item) for item in found.states.items() if item[1]],
        broken=sum(not equation.is_balanced for equation in found.equations),
        outside=[unattributed for unattributed in found.unattributed if unattributed.number],
        state=state,
        order=order,
        sessions=rows.to_dicts(),
        next_url=cursor and visit.frame.here(cursor=cursor),
        csv_url=visit.frame.url(
            "/operations/books.csv",
            day=f"{day}",
            state=state,
            sort=visit.request.query_params.get("sort"),
        ),
        run_url=visit.frame.run_url(EVALUATION_BOOKS, day),
        of_everything=visit.caller.organization is None,
        not_stored=not_stored(visit),
        names=names_not_stored(visit),
        most_names=MOST_NAMES,
    )


def _line(found: DayBooks, state: str, number: int) -> StateLine:
    reasons = found.reasons(state)
    shown = (
        *reasons[:_MOST_REASONS],
        *(reason for reason in reasons[_MOST_REASONS:] if reason[0] == REVIEW_DUE),
    )
    return StateLine(state, number, STATES[state].meaning, STATES[state].what_next, shown)
