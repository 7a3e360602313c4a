"""The comparison of models: the report's answers and tables, for any label and time."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import polars as pl
from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.comparison.domain.groups import (
    BY_MODEL,
    CHOICES,
    NO_MASQUE,
    USUAL_VARIANT,
    grouping,
)
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.reporting.domain.comparison_report import PageLinks, page_content
from evaluation_pipelines.service.kept import Asked
from evaluation_pipelines.service.pages.asked import asked_days, day_links, filters_by_value
from evaluation_pipelines.service.pages.domain.days import DayRange, cost_of
from evaluation_pipelines.service.pages.domain.session_lines import choices_of
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, asked_sessions, download
from evaluation_pipelines.views.filters import CHOICES as CHOICES_OF_LISTS
from evaluation_pipelines.views.filters import ListQuery

ROUTER = APIRouter(include_in_schema=False)

_DAY = timedelta(days=1)


@ROUTER.get("/models")
def models(visit: Visitor) -> HTMLResponse:
    """Show the comparison that is asked for, or that it is being computed."""
    query = _asked_models(visit)
    days, rows = asked_days(visit, query), visit.rows()
    asked = _asked(visit, query, days)
    found = visit.comparison(asked)
    shown = {} if found is None else page_content(found, _links(visit, days, asked.by))
    counted = query.on(days.first, days.last).chosen(rows)
    started = _started(rows, query, days)
    return visit.page(
        "models",
        **shown,
        is_compared=found is not None,
        has_sessions=not rows.is_empty(),
        query=query,
        by=asked.by,
        choices=[(choice, choice.replace("_", " ")) for choice in CHOICES],
        filters=filters_by_value(visit, query),
        cost=cost_of(counted),
        windows=(started, counted.height) if started != counted.height else None,
        days=day_links(visit, days, rows),
        labels_to_choose=choices_of(rows, ["label"])["label"],
        csv_url=visit.frame.here().replace("/models", "/models.csv", 1),
    )


@ROUTER.get("/models.csv")
async def models_csv(visit: Visitor) -> Response:
    """Return the rows of the models as CSV, as the command ``compare`` prints them."""

    def asked() -> Asked:
        query = _asked_models(visit)
        return _asked(visit, query, asked_days(visit, query))

    found = await visit.computed_comparison(await run_in_threadpool(asked))
    return download("models.csv", csv_text(found.models))


def _asked_models(visit: Visit) -> ListQuery:
    """Return what the fields of the URL ask for: models are compared by label and days alone."""
    query = asked_sessions(visit)
    return ListQuery(label=query.label, dates=query.dates)


def _asked(visit: Visit, query: ListQuery, days: DayRange) -> Asked:
    usual = asked_days(visit, ListQuery())
    span = (_midnight(days.first), _midnight(days.last + _DAY))
    by = visit.request.query_params.get("by") or BY_MODEL.by
    grouping(by)
    return Asked(visit.organization, query.label, (None, None) if days == usual else span, by)


def _started(rows: pl.DataFrame, query: ListQuery, days: DayRange) -> int:
    """Return the number of windows that started in some days, which are those of a comparison."""
    times = pl.col("started_at").is_between(
        _midnight(days.first), _midnight(days.last + _DAY), closed="left"
    )
    return query.on().chosen(rows.filter(times)).height


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _links(visit: Visit, days: DayRange, by: str) -> PageLinks:
    def session(row: Mapping[str, Any]) -> str:
        return visit.frame.session_url(row["organization_id"], row["session_key"])

    def model(row: Mapping[str, Any]) -> str:
        name = {"model_variant": "variant"}.get(by, by)
        if row["model"] in (None, NO_MASQUE, USUAL_VARIANT) or name not in CHOICES_OF_LISTS:
            return ""
        return visit.frame.url(
            "/sessions",
            **{"from": f"{days.first}", "to": f"{days.last}"},
            **{name: row["model"]},
            **({"variant": row["model_variant"]} if row["model_variant"] else {}),
            label=row["classification_label"],
            source=row["effective_source"],
        )

    return PageLinks(session, model)
