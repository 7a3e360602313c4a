"""How quality, cost, tokens and failures develop, as charts, a table and CSV."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.judge_changes.domain.scale import Turn, on_newest_scale
from evaluation_pipelines.people.view import hidden_columns
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.asked_days import asked_days, day_links
from evaluation_pipelines.service.pages.domain.costs import Cost, cost_of
from evaluation_pipelines.service.pages.domain.day_range import DayRange
from evaluation_pipelines.service.pages.domain.session_lines import (
    CHOICES,
    ListQuery,
    choices_of,
    chosen_rows,
)
from evaluation_pipelines.service.pages.domain.trends import (
    CSV_COLUMNS,
    HEADINGS,
    MOST_CURVES,
    MOST_ROWS,
    STEPS,
    cells,
    charts,
    dimensions,
    names_of,
    trend_rows,
    turn_sentence,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_sessions, download

ROUTER = APIRouter(include_in_schema=False)

_FILTERS = ("model", "agent", "label", "repository", "team", "person")


@dataclass(frozen=True, slots=True)
class _Trend:
    """Rows of :func:`trend_rows`, and what they are of."""

    query: ListQuery
    days: DayRange
    by: str | None
    step: str
    rows: pl.DataFrame
    cost: Cost
    turns: Sequence[Turn]


@ROUTER.get("/trends")
def trends(visit: Visitor) -> HTMLResponse:
    """Show the charts and the table that are asked for."""
    hidden = hidden_columns(visit.installation.settings.people_view)
    trend, every = _trend(visit, hidden), visit.rows()
    rows, names = trend.rows, names_of(trend.rows)
    newest = rows.reverse().head(MOST_ROWS)
    return visit.page(
        "trends",
        trend=trend,
        days=day_links(visit, trend.days, every),
        cost=trend.cost,
        charts=charts(rows, names[:MOST_CURVES], trend.turns, lambda row: _url(visit, trend, row)),
        names=names[:MOST_CURVES],
        others=names[MOST_CURVES:],
        turns=[turn_sentence(each) for each in trend.turns],
        lines=[(row, cells(row), _url(visit, trend, row)) for row in newest.to_dicts()],
        headings=HEADINGS,
        number=rows.height,
        steps=STEPS,
        dimensions=dimensions(hidden),
        choices=choices_of(every, [name for name in _FILTERS if CHOICES[name] not in hidden]),
        has_sessions=not every.is_empty(),
        csv_url=visit.frame.here().replace("/trends", "/trends.csv", 1),
    )


@ROUTER.get("/trends.csv")
def trends_csv(visit: Visitor) -> Response:
    """Return the rows that are asked for as CSV."""
    trend = _trend(visit, hidden_columns(visit.installation.settings.people_view))
    return download("trends.csv", csv_text(trend.rows.select(CSV_COLUMNS)))


def _trend(visit: Visit, hidden: Collection[str]) -> _Trend:
    """Return the trend that the fields of the URL ask for.

    Raises:
        ServiceError: 400, a field cannot have its value.
    """
    fields, query = visit.request.query_params, asked_sessions(visit)
    by, step = fields.get("by") or None, fields.get("step") or "day"
    known = dimensions(hidden)
    named = [name for name in query.values or {} if CHOICES[name] in hidden]
    if by not in {None, *known} or step not in STEPS or named:
        names = f"by: {', '.join(known)}; step: {', '.join(STEPS)}"
        raise ServiceError(400, "invalid_request", f"Fields and their values are: {names}.")
    days = asked_days(visit, query)
    chosen = chosen_rows(visit.rows_to_sum_up(), ListQuery(days.first, days.last, query.values), {})
    changes = visit.stores.lake.read_whole(JUDGE_CHANGES)
    scaled, turns = on_newest_scale(chosen, changes)
    return _Trend(
        query, days, by, step, trend_rows(scaled, by, step, turns), cost_of(chosen), turns
    )


def _url(visit: Visit, trend: _Trend, row: Mapping[str, object]) -> str:
    """Return the URL of the sessions behind a row; empty if the list cannot show them alone."""
    if row["name"] is None:
        return ""
    days = {"from": f"{row['first_day']}", "to": f"{row['last_day']}"}
    named = {} if trend.by is None else {trend.by: f"{row['name']}"}
    return visit.frame.url("/sessions", **{**(trend.query.values or {}), **days, **named})
