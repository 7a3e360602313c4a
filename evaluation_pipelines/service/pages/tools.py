"""Tools: lost calls of all sessions, the tool that fails most, and missing tools."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

import polars as pl
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.formatting import csv_text, percent
from evaluation_pipelines.schemas import MISSING_TOOLS
from evaluation_pipelines.scorecards.domain.withheld import WAITS, withhold
from evaluation_pipelines.service.pages.asked import asked_days, day_links, filters_by_value
from evaluation_pipelines.service.pages.domain.days import DayRange
from evaluation_pipelines.service.pages.domain.session_lines import choices_of
from evaluation_pipelines.service.pages.rendering import (
    Visit,
    Visitor,
    asked_sessions,
    download,
)
from evaluation_pipelines.sessions.domain.tool_reports.fleet import (
    commonest_errors,
    unknown_columns,
)
from evaluation_pipelines.views.filters import LIST_COLUMNS, ListQuery
from evaluation_pipelines.views.listing import in_order

FEWEST_CALLS = 20
"""A tool with fewer calls is not named for its share of failures."""


def most_failed(by_tool: pl.DataFrame) -> tuple[str, str] | None:
    """Return the tool with the most failed calls and a sentence; ``None`` if none failed.

    Args:
        by_tool: Rows of ``lost_by``.
    """
    failed = by_tool.filter(pl.col("failed") > 0, pl.col("tool").is_not_null())
    if failed.is_empty():
        return None
    shares = failed.with_columns(share=pl.col("failed") / pl.col("calls"))
    most = shares.sort(-pl.col("failed"), "tool").row(0, named=True)
    said = f"{percent(most['share'])}."
    often = shares.filter(pl.col("calls") >= FEWEST_CALLS).sort(-pl.col("share"), "tool")
    if not often.is_empty() and often["tool"][0] != most["tool"]:
        rate = percent(often["share"][0])
        said += f" Highest rate: {often['tool'][0]}, {rate}."
    return most["tool"], said


ROUTER = APIRouter(include_in_schema=False)

_FILTERS = ("model", "agent", "label", "repository", "team", "person")
_MOST_MISSED = 50
_MOST_ROWS = 10

SORTED_BY = {
    "calls": "calls",
    "lost": "lost_calls",
    "share": "lost_pct",
    "failed": "failed",
    "failed_share": "failed_pct",
    "money": "lost_usd",
}
"""Name of an order of the tables of lost calls -> its column."""

USUAL_ORDER = "-lost"

MISSED_COLUMNS = (
    *("organization_id", "tool", "sessions", "asked_sessions", "mentions", "agent_models"),
    *("period_start", "period_end"),
)
"""Columns of the downloaded list of tools that judges missed, as in the analysts' database."""

_Table: TypeAlias = Annotated[Literal["tool", "model", "missed"], Query(alias="table")]


@dataclass(frozen=True, slots=True)
class _Lost:
    """Rows of the session windows that are asked for: lost calls by tool and model, failures."""

    query: ListQuery
    days: DayRange
    windows: pl.DataFrame
    by_tool: pl.DataFrame
    by_model: pl.DataFrame
    failures: pl.DataFrame


@ROUTER.get("/tools")
def tools(visit: Visitor) -> HTMLResponse:
    """Show what fails, repeats and wastes, by tool and by model, and what judges missed."""
    lost = _lost(visit)
    names = [name for name in _FILTERS if LIST_COLUMNS[name] not in visit.hidden]
    every, missed, errors = visit.rows(), _missed(visit), _errors(visit, lost)
    return visit.page(
        "tools",
        has_sessions=not every.is_empty(),
        lost=lost,
        filters=filters_by_value(visit, lost.query),
        days=day_links(visit, lost.days, every),
        sessions=lost.windows.height,
        most_failed=most_failed(lost.by_tool),
        errors=errors,
        flagged=int(lost.windows["is_flagged"].sum()),
        tables=[
            ("By tool", "tool", [(row, "") for row in lost.by_tool.to_dicts()]),
            (
                "Models",
                "model",
                [(row, _url(visit, lost, row)) for row in lost.by_model.to_dicts()],
            ),
        ],
        unknown=unknown_columns(lost.by_model),
        choices=choices_of(every, names),
        csv_urls={name: _csv_url(visit, name) for name in ("tool", "model", "missed")},
        most_rows=_MOST_ROWS,
        fewest_calls=FEWEST_CALLS,
        missed=missed.head(_MOST_MISSED).to_dicts(),
        waiting=visit.waiting,
        missed_days=None if missed.is_empty() else _period(missed),
        has_organizations=visit.organization is None and bool(visit.frame.organizations),
    )


@ROUTER.get("/tools.csv")
def tools_csv(visit: Visitor, table: _Table = "tool") -> Response:
    """Return one of the tables as CSV."""
    if table == "missed":
        rows = _missed(visit).select(MISSED_COLUMNS)
        return download(
            "missed-tools.csv", csv_text(rows.with_columns(pl.col("agent_models").list.join(", ")))
        )
    lost = _lost(visit)
    rows = lost.by_tool if table == "tool" else lost.by_model
    return download(f"lost-calls-by-{table}.csv", csv_text(rows))


def _lost(visit: Visit) -> _Lost:
    """Return the lost calls of the sessions that are asked for.

    Raises:
        ServiceError: 400, a field cannot have its value.
    """
    query = asked_sessions(visit, SORTED_BY, USUAL_ORDER)
    days = asked_days(visit, query)
    rows = visit.kept.tool_calls.rows(days.dates)
    if visit.organization is not None:
        rows = rows.of_organization(visit.organization)
    if query.values:
        rows = rows.of_sessions(query.on(days.first, days.last).chosen(visit.rows()))
    both = (rows.lost_by("tool"), rows.lost_by("model"))
    share = pl.when(pl.col("calls") > 0).then(100 * pl.col("failed") / pl.col("calls"))
    by_tool, by_model = (
        in_order(frame.with_columns(failed_pct=share), query.sort, SORTED_BY) for frame in both
    )
    return _Lost(query, days, rows.windows, by_tool, by_model, rows.failures)


def _errors(visit: Visit, lost: _Lost) -> dict[str, dict[str, Any]]:
    """Return the rows of ``commonest_errors`` by tool; none for who may not read texts.

    A session that waits for the visitor's blind review is no example.
    """
    texts = visit.shown_texts
    if texts is None:
        return {}
    found = commonest_errors(withhold(lost.failures, visit.waiting), ~pl.col(WAITS))
    return {row["tool"]: {**row, "error": texts.line(row["error"])} for row in found.to_dicts()}


def _url(visit: Visit, lost: _Lost, row: dict[str, object]) -> str:
    """Return the URL of the sessions of a model; empty for sessions whose model is not known."""
    if row["model"] is None:
        return ""
    days = {"from": f"{lost.days.first}", "to": f"{lost.days.last}"}
    chosen = {**lost.query.values, "model": f"{row['model']}"}
    return visit.frame.url("/sessions", **days, **chosen, sort="-failed")


def _csv_url(visit: Visit, table: str) -> str:
    return visit.frame.here(table=table).replace("/tools", "/tools.csv", 1)


def _period(missed: pl.DataFrame) -> DayRange:
    """Return the days that the missed tools are counted over; ``period_end`` is after the last."""
    return DayRange(missed["period_start"][0], missed["period_end"][0] - timedelta(days=1))


def _missed(visit: Visit) -> pl.DataFrame:
    """Return the tools that judges missed in the newest period, the most frequent first."""
    rows, owner = visit.stores.lake.read_whole(MISSING_TOOLS), visit.organization
    if owner is not None:
        rows = rows.filter(organization_id=owner)
    newest = rows.filter(pl.col("period_end") == pl.col("period_end").max())
    return newest.sort("sessions", "tool", descending=[True, False])
