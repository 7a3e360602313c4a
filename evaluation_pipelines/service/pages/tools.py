"""Tools: which calls were lost over all sessions, and which tools judges missed."""

from datetime import date, timedelta
from typing import Annotated

import polars as pl
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from evaluation_pipelines.schemas import MISSING_TOOLS, SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.service.times import RequestDate
from evaluation_pipelines.sessions.domain.tool_reports.fleet import lost_by_model, lost_by_tool

ROUTER = APIRouter(include_in_schema=False)

_DAYS = 28
_COLUMNS = (
    *SESSION_KEY,
    *("model", "by_tool", "unknown", "is_flagged", "total_calls", "failed_calls"),
    *("corrected_calls", "repeated_calls", "wasted_calls", "lost_calls", "lost_tokens", "lost_usd"),
)
_MOST_MISSED = 50


@ROUTER.get("/tools")
def tools(
    visit: Visitor,
    since: Annotated[RequestDate | None, Query(alias="from")] = None,
    until: Annotated[RequestDate | None, Query(alias="to")] = None,
) -> HTMLResponse:
    """Show what fails, repeats and wastes, by tool and by model, and what judges missed."""
    last = until or visit.installation.clock().date()
    first = since or last - timedelta(days=_DAYS - 1)
    if first > last:
        raise ServiceError(400, "empty_time_range", "The time range ends before it begins.")
    reports = _reports(visit, first, last)
    costs = visit.rows().select(*SESSION_KEY, "cost_usd")
    return visit.page(
        "tools",
        first=first,
        last=last,
        sessions=reports.height,
        flagged=int(reports["is_flagged"].sum()),
        tables=(
            ("By tool", "tool", lost_by_tool(reports, costs).to_dicts()),
            ("By model", "model", lost_by_model(reports, costs).to_dicts()),
        ),
        missed=_missed(visit),
        has_organizations=visit.organization is None and bool(visit.frame.organizations),
    )


def _reports(visit: Visit, first: date, last: date) -> pl.DataFrame:
    lake = visit.stores.lake
    days = [day for day in lake.partitions(TOOL_REPORTS) if first <= day <= last]
    reports, owner = lake.read(TOOL_REPORTS, days, _COLUMNS), visit.organization
    return reports if owner is None else reports.filter(organization_id=owner)


def _missed(visit: Visit) -> list[dict[str, object]]:
    """Return the tools that judges missed most in the newest period."""
    rows, owner = visit.stores.lake.read_whole(MISSING_TOOLS), visit.organization
    if owner is not None:
        rows = rows.filter(organization_id=owner)
    newest = rows.filter(pl.col("period_end") == pl.col("period_end").max())
    return newest.sort("sessions", "tool", descending=[True, False]).head(_MOST_MISSED).to_dicts()
