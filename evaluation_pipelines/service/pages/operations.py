"""Operations: the list of what needs attention, quarantine, doctor, and former addresses."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from evaluation_pipelines.attention.domain.arrivals import DAYS
from evaluation_pipelines.attention.domain.item import DOCTOR, Item, State
from evaluation_pipelines.attention.domain.items import Examined, Facts, attention, needing
from evaluation_pipelines.attention.domain.messages import names_person
from evaluation_pipelines.attention.gather import RECENT, examine, gather, rising_agents
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.service.caller import check_all_organizations
from evaluation_pipelines.service.kept import PATIENCE_S
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, download
from evaluation_pipelines.service.routes.common import RequestDate
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    QuarantineEntry,
    all_entries,
    newest_entries,
    without_numbers,
)
from evaluation_pipelines.views.sessions import state_counts

ROUTER = APIRouter(include_in_schema=False)

_MOVED_PERMANENTLY = 301
_MOST_ENTRIES = 200
_DETAILS = r"(?s)(: | at byte \d).*"

_COLUMNS = ("path", "offset", "record_index", "length_bytes", "lines", "reason", "quarantined_at")


@ROUTER.get("/operations")
def operations(visit: Visitor) -> RedirectResponse:
    """Open the first part that the caller may see."""
    _, url, _ = visit.frame.operations[0]
    return RedirectResponse(url, 303)


@ROUTER.get("/books")
@ROUTER.get("/books.csv")
@ROUTER.get("/books/{day}")
@ROUTER.get("/doctor")
@ROUTER.get("/judge")
@ROUTER.get("/judge.csv")
@ROUTER.get("/quarantine")
@ROUTER.get("/quarantine.csv")
def moved(request: Request) -> RedirectResponse:
    """Redirect an old address to the current page, which asks for the key."""
    url = request.url
    target = f"/operations{url.path}"
    return RedirectResponse(f"{target}?{url.query}" if url.query else target, _MOVED_PERMANENTLY)


@ROUTER.get("/operations/quarantine")
def quarantine(visit: Visitor, since: RequestDate | None = None) -> HTMLResponse:
    """Show the newest lines in quarantine; what cannot be read belongs to no organization."""
    check_all_organizations(visit.caller)
    entries, lines = newest_entries(visit.stores, _MOST_ENTRIES, since)
    return visit.page(
        "quarantine",
        entries=entries,
        lines=lines,
        causes=_causes(entries),
        since=since,
        is_cut=len(entries) == _MOST_ENTRIES,
        whole_line=WHOLE_LINE,
        unreadable=_unreadable_lines(visit),
    )


@ROUTER.get("/operations/quarantine.csv")
def quarantine_csv(visit: Visitor) -> Response:
    """Return the lines in quarantine as CSV, by file and place."""
    check_all_organizations(visit.caller)
    entries = all_entries(visit.stores)
    return download("quarantine.csv", csv_text(entries.select(_COLUMNS)))


def _causes(entries: Sequence[QuarantineEntry]) -> list[tuple[str, int]]:
    """Return the beginning of each reason, without what it found, and its lines, most first."""
    rows = [(entry.reason, entry.lines) for entry in entries]
    reasons = pl.DataFrame(rows, {"reason": pl.String(), "lines": pl.Int64()}, orient="row")
    cause = without_numbers(pl.col("reason").str.replace(_DETAILS, ""))
    lines = reasons.group_by(cause).agg(pl.sum("lines"))
    return lines.sort("lines", "reason", descending=[True, False]).rows()


def _unreadable_lines(visit: Visit) -> list[dict[str, Any]]:
    """Return path, line and reason of signals and evaluations that cannot be used."""
    files = loaded_files(visit.stores).filter(pl.col("rejected") > 0)
    lines = files.sort("path").select("path", "rejects").explode("rejects").unnest("rejects")
    return lines.head(_MOST_ENTRIES).to_dicts()


_FIRST_PATIENCE_S = 0.5
"""How long the first page waits for what takes a while."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a visitor sees, from the tables in memory."""

    visit: Visit

    @property
    def organization(self) -> str | None:
        return self.visit.organization

    def recent(self, since: date) -> pl.DataFrame:
        rows = self.visit.kept.sessions.rows(self.visit.waiting)
        return rows.filter(pl.col("session_date") >= since).select(RECENT)

    def sessions(self, keys: Collection[str], since: date) -> pl.DataFrame:
        is_one = pl.col("session_key").is_in(sorted(keys))
        return self.visit.rows().filter(pl.col("session_date") >= since, is_one)

    def to_review(self) -> int:
        return len(self.visit.to_review)

    def books(self, days: Collection[date]) -> pl.DataFrame:
        return state_counts(self.visit.rows(), days)


def needs_of(visit: Visit) -> dict[str, Any]:
    """Return what needs attention that the visitor may see, for a template.

    What takes a while is examined in the background, and is that of the last minute:
    ``is_examining`` says that it is not known yet.
    """
    if visit.caller.organization is not None:
        items = needing(attention(_gather(visit, None)))
        return {"needs": [item for item in items if item.is_for_all], "is_examining": False}
    recent = visit.kept.examinations
    asked = visit.frame.address, visit.installation.clock()
    examined = recent.get(*asked, PATIENCE_S) or recent.get(*asked, _FIRST_PATIENCE_S)
    items = needing(attention(_gather(visit, examined)))
    return {"needs": items, "is_examining": examined is None}


def rising_of(visit: Visit) -> dict[tuple[str, str], list[Item]]:
    """Return the items about agents that the visitor sees, by organization and name."""
    return rising_agents(_View(visit), visit.installation.clock())


def _gather(visit: Visit, examined: Examined | None) -> Facts:
    now, address = visit.installation.clock(), visit.frame.address
    facts = gather(visit.stores, now, examined=examined, view=_View(visit), serves_at=address)
    if "person_id" not in visit.hidden:
        return facts
    seen = [
        alert for alert in facts.alerts if not names_person(alert.alert.kind, alert.alert.cause)
    ]
    return replace(facts, alerts=seen)


@ROUTER.get("/operations/doctor")
def doctor(visit: Visitor) -> HTMLResponse:
    """Show all items; they are of the installation, not of an organization."""
    check_all_organizations(visit.caller)
    now, address = visit.installation.clock(), visit.frame.address
    examined = examine(visit.stores, now, asks=True, serves_at=address)
    items = attention(_gather(visit, examined))
    return visit.page(
        "doctor",
        needs=needing(items),
        fine=[item for item in items if item.state is State.OK],
        counts={state.value: sum(item.state is state for item in items) for state in State},
        programs=examined.arrivals,
        doctor=DOCTOR,
        days=DAYS,
    )
