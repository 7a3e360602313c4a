"""How quality, cost, tokens and failures develop, as charts, a table and CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.judge_changes.domain.judges import Turn, on_newest_scale
from evaluation_pipelines.outcomes.from_git import first_tracked
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.asked import asked_days, day_links, filters_by_value
from evaluation_pipelines.service.pages.domain.days import Cost, DayRange, cost_of
from evaluation_pipelines.service.pages.domain.session_lines import choices_of
from evaluation_pipelines.service.pages.domain.trends import (
    CSV_COLUMNS,
    HEADINGS,
    MOST_CURVES,
    MOST_ROWS,
    STEPS,
    WHOLE,
    answers_of,
    cells,
    charts,
    dimensions,
    display_names,
    eras,
    is_shift_visible,
    merges_note,
    names_of,
    trend_rows,
    turn_sentence,
    unnamed_sessions,
    with_absent,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_sessions, download
from evaluation_pipelines.views.filters import LIST_COLUMNS, ListQuery

ROUTER = APIRouter(include_in_schema=False)

_FILTERS = ("model", "agent", "label", "repository", "team", "person")


@dataclass(frozen=True, slots=True)
class _Trend:
    """Rows of :func:`trend_rows`, and the query they answer."""

    query: ListQuery
    days: DayRange
    by: str | None
    step: str
    rows: pl.DataFrame
    cost: Cost
    turns: Sequence[Turn]


@ROUTER.get("/trends")
def trends(visit: Visitor) -> HTMLResponse:
    """Show the requested charts and table."""
    trend, every = _trend(visit), visit.rows()
    rows, names = trend.rows, names_of(trend.rows)
    is_whole = trend.step == WHOLE
    shown = (rows if is_whole else rows.reverse()).head(MOST_ROWS)
    drawn = [] if is_whole else names[:MOST_CURVES]
    names_shown, is_visible = display_names(rows, trend.by), is_shift_visible(rows, trend.turns)

    def url(row: Mapping[str, object]) -> str:
        return _url(visit, trend, row)

    return visit.page(
        "trends",
        trend=trend,
        filters=filters_by_value(visit, trend.query),
        days=day_links(visit, trend.days, every),
        cost=trend.cost,
        has_judge_change=_has_judge_change(visit, trend.days),
        charts=charts(rows, drawn, trend.turns, url, shown_names=names_shown),
        display_names=names_shown,
        has_dashes=is_visible and bool(drawn),
        names=names[:MOST_CURVES],
        others=names[MOST_CURVES:],
        eras=eras(trend.turns),
        turns=[turn_sentence(turn, is_visible=is_visible) for turn in trend.turns],
        merges=merges_note(rows, first_tracked(visit.installation.clock())),
        lines=[(row, cells(row), url(row)) for row in shown.to_dicts()],
        headings=HEADINGS,
        number=rows.height,
        steps=STEPS,
        is_whole=is_whole,
        answers=answers_of(rows, names_shown) if is_whole and trend.by else [],
        unnamed=unnamed_sessions(rows) if is_whole and trend.by else 0,
        groups=[(name, visit.frame.here(by=name, step=WHOLE)) for name in groups(visit)],
        dimensions=dimensions(visit.hidden),
        choices=choices_of(
            every, [name for name in _FILTERS if LIST_COLUMNS[name] not in visit.hidden]
        ),
        has_sessions=not every.is_empty(),
        csv_url=visit.frame.here().replace("/trends", "/trends.csv", 1),
    )


@ROUTER.get("/trends.csv")
def trends_csv(visit: Visitor) -> Response:
    """Return the requested rows as CSV."""
    trend = _trend(visit)
    return download("trends.csv", csv_text(trend.rows.select(CSV_COLUMNS)))


def _trend(visit: Visit) -> _Trend:
    """Return the trend that the fields of the URL ask for.

    Raises:
        ServiceError: 400, a parameter has an invalid value.
    """
    fields, query = visit.request.query_params, asked_sessions(visit)
    by, step = fields.get("by") or None, fields.get("step") or "day"
    known = dimensions(visit.hidden)
    for name, value, allowed in (("by", by, known), ("step", step, STEPS)):
        if value is not None and value not in allowed:
            message = f"Allowed values of {name}: {', '.join(allowed)}."
            raise ServiceError(400, "invalid_request", message)
    days = asked_days(visit, query)
    chosen = query.on(days.first, days.last).chosen(visit.rows())
    scaled, turns = on_todays_scale(visit, chosen)
    rows = trend_rows(scaled, by, step, turns)
    if by is not None and step == WHOLE:
        others = query.on().chosen(visit.rows())
        rows = with_absent(rows, others, by)
    return _Trend(query, days, by, step, rows, cost_of(chosen), turns)


def groups(visit: Visit) -> list[str]:
    """Return the dimensions by which the visitor may split the chart."""
    known = dimensions(visit.hidden)
    return [name for name in ("model", "agent", "person", "team", "repository") if name in known]


def _has_judge_change(visit: Visit, days: DayRange) -> bool:
    """Return True if a judge changed in a range after its first day, which has nothing before."""
    changes = visit.stores.lake.read_whole(JUDGE_CHANGES)
    within = changes.filter(pl.col("changed_on") > days.first, pl.col("changed_on") <= days.last)
    return not within.is_empty()


def on_todays_scale(visit: Visit, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Turn]]:
    """Return rows with ``score`` on the scale of the newest judge, and changes of the judge."""
    return on_newest_scale(rows, visit.stores.lake.read_whole(JUDGE_CHANGES))


def _url(visit: Visit, trend: _Trend, row: Mapping[str, object]) -> str:
    """Return the URL of the sessions behind a row; empty if the list cannot show them alone."""
    if row["name"] is None or not row["sessions"]:
        return ""
    days = {"from": f"{row['first_day']}", "to": f"{row['last_day']}"}
    named = {} if trend.by is None else {trend.by: f"{row['name']}"}
    return visit.frame.url("/sessions", **{**trend.query.values, **days, **named})
