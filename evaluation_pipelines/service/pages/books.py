"""The books of a day: every session in one state, and whether all counts add up."""

from dataclasses import dataclass
from datetime import date
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
from evaluation_pipelines.service.pages.losses import (
    MOST_NAMES,
    names_not_stored,
    not_stored,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_order, download
from evaluation_pipelines.service.routes.common import RequestDate
from evaluation_pipelines.views.listing import BOOK_LISTING

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
    rows = _of_state(visit, found, state) if state else found.sessions.sort(SESSION_KEY)
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


def _of_state(visit: Visit, found: DayBooks, state: str) -> pl.DataFrame:
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
    chosen = _of_state(visit, found, state) if state else found.sessions.clear()
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
        lines=[_line(found, *each) for each in found.states.items() if each[1]],
        broken=sum(not each.is_balanced for each in found.equations),
        outside=[each for each in found.unattributed if each.number],
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
        *(each for each in reasons[_MOST_REASONS:] if each[0] == REVIEW_DUE),
    )
    return StateLine(state, number, STATES[state].meaning, STATES[state].what_next, shown)
