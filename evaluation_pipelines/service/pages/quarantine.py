"""What was not counted: lines that could not be read, why, and what to do."""

from typing import Any

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.service.caller import check_all_organizations
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.telemetry.ledger.quarantine_retries import WHOLE_LINE
from evaluation_pipelines.telemetry.quarantine.entries import newest_unresolved

ROUTER = APIRouter(include_in_schema=False)

_MOST_ENTRIES = 200


@ROUTER.get("/quarantine")
def quarantine(visit: Visitor) -> HTMLResponse:
    """Show the newest lines in quarantine; what cannot be read belongs to no organization."""
    check_all_organizations(visit.caller)
    entries = newest_unresolved(visit.stores, _MOST_ENTRIES)
    return visit.page(
        "quarantine",
        entries=entries,
        is_cut=len(entries) == _MOST_ENTRIES,
        whole_line=WHOLE_LINE,
        rejects=_rejected_lines(visit),
    )


def _rejected_lines(visit: Visit) -> list[dict[str, Any]]:
    """Return path, line and reason of signals and evaluations that cannot be used."""
    files = loaded_files(visit.stores).filter(pl.col("rejected") > 0)
    lines = files.sort("path").select("path", "rejects").explode("rejects").unnest("rejects")
    return lines.head(_MOST_ENTRIES).to_dicts()
