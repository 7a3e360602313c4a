"""The books of a day: every session in one state, and whether all counts add up."""

from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse

from evaluation_pipelines.reporting.domain.reconciliation.day import DayBooks
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.reporting.reconciliation import settled_books
from evaluation_pipelines.schemas import EVALUATION_BOOKS, SESSION_KEY
from evaluation_pipelines.service.errors import not_found
from evaluation_pipelines.service.pages.cursors import cursor_of, key_of, list_changed
from evaluation_pipelines.service.pages.domain.session_lines import page_of
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.service.times import RequestDate

ROUTER = APIRouter(include_in_schema=False)

_LIMIT, _MOST_REASONS = 100, 5


@dataclass(frozen=True, slots=True)
class StateLine:
    """A state: what it means, how many sessions are in it, and their most frequent reasons."""

    state: str
    number: int
    meaning: str
    what_next: str
    reasons: tuple[tuple[str, int], ...]


@ROUTER.get("/books")
def newest_books(
    visit: Visitor,
    day: Annotated[RequestDate | None, Query()] = None,
    state: Annotated[str | None, Query(max_length=40)] = None,
) -> HTMLResponse:
    """Show the books of a day that the form names, or else of the newest one."""
    days = _days(visit)
    if not days and day is None:
        return visit.page("books", found=None, day=None, days=())
    return _page(visit, day or days[-1], days, state)


@ROUTER.get("/books/{day}")
def day_books(
    visit: Visitor,
    day: Annotated[RequestDate, Path()],
    state: Annotated[str | None, Query(max_length=40)] = None,
) -> HTMLResponse:
    """Show the books of a day; with a state, the sessions in it."""
    return _page(visit, day, _days(visit), state)


def _days(visit: Visit) -> list[date]:
    return visit.stores.lake.partitions(EVALUATION_BOOKS)


def _page(visit: Visit, day: date, days: list[date], state: str | None) -> HTMLResponse:
    if state is not None and state not in STATES:
        raise not_found("The state")
    found, owner = settled_books(visit.stores, day, visit.installation.clock()), visit.organization
    if owner is not None:
        found = replace(found, sessions=found.sessions.filter(organization_id=owner))
    of_state = found.sessions.filter(state=state) if state else found.sessions.clear()
    chosen = of_state.sort(SESSION_KEY)
    page = page_of(chosen, key_of(visit.request.query_params.get("cursor")), _LIMIT)
    if page is None:
        raise list_changed()
    rows, last = page
    return visit.page(
        "books",
        found=found,
        day=day,
        days=days,
        lines=[_line(found, *each) for each in found.states.items()],
        state=state,
        meaning=STATES[state] if state else None,
        sessions=rows.to_dicts(),
        next_url=None if last is None else visit.frame.here(cursor=cursor_of(last)),
        of_everything=visit.caller.organization is None,
    )


def _line(found: DayBooks, state: str, number: int) -> StateLine:
    reasons = tuple(found.reasons(state)[:_MOST_REASONS]) if number else ()
    return StateLine(state, number, STATES[state].meaning, STATES[state].what_next, reasons)
