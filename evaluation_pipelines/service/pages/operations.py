"""Operations: its first part, the addresses that its parts had before, and quarantine."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.service.caller import check_all_organizations
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, download
from evaluation_pipelines.service.routes.common import RequestDate
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    QuarantineEntry,
    all_entries,
    newest_entries,
    without_numbers,
)

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
    entries = newest_entries(visit.stores, _MOST_ENTRIES, since)
    return visit.page(
        "quarantine",
        entries=entries,
        lines=sum(each.lines for each in entries),
        causes=_causes(entries),
        since=since,
        is_cut=len(entries) == _MOST_ENTRIES,
        whole_line=WHOLE_LINE,
        rejects=_rejected_lines(visit),
    )


@ROUTER.get("/operations/quarantine.csv")
def quarantine_csv(visit: Visitor) -> Response:
    """Return the lines in quarantine as CSV, by file and place."""
    check_all_organizations(visit.caller)
    entries = all_entries(visit.stores)
    return download("quarantine.csv", csv_text(entries.select(_COLUMNS)))


def _causes(entries: Sequence[QuarantineEntry]) -> list[tuple[str, int]]:
    """Return the beginning of each reason, without what it found, and its lines, most first."""
    rows = [(each.reason, each.lines) for each in entries]
    reasons = pl.DataFrame(rows, {"reason": pl.String(), "lines": pl.Int64()}, orient="row")
    cause = without_numbers(pl.col("reason").str.replace(_DETAILS, ""))
    lines = reasons.group_by(cause).agg(pl.sum("lines"))
    return lines.sort("lines", "reason", descending=[True, False]).rows()


def _rejected_lines(visit: Visit) -> list[dict[str, Any]]:
    """Return path, line and reason of signals and evaluations that cannot be used."""
    files = loaded_files(visit.stores).filter(pl.col("rejected") > 0)
    lines = files.sort("path").select("path", "rejects").explode("rejects").unnest("rejects")
    return lines.head(_MOST_ENTRIES).to_dicts()
