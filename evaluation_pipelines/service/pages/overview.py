"""The first page: is telemetry arriving, how did the last days go, what needs me, which model."""

from collections.abc import Sequence
from datetime import date
from typing import TypeAlias

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.comparison.domain.answers import (
    Answer,
    demo_caveat,
    ranked_answers,
    without_ranking,
)
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import Finding, findings, name_of
from evaluation_pipelines.comparison.domain.got_worse import got_worse
from evaluation_pipelines.comparison.domain.models import Row, has_cost
from evaluation_pipelines.formatting import points, usd
from evaluation_pipelines.service.pages.agent_trend import usual_changes
from evaluation_pipelines.service.pages.attention import items_for
from evaluation_pipelines.service.pages.domain.changed_agents import changed_agents
from evaluation_pipelines.service.pages.domain.costs import MostCosts, costs_most, costs_of_ranges
from evaluation_pipelines.service.pages.domain.day_range import DayRange, day_range, named_ranges
from evaluation_pipelines.service.pages.domain.days import (
    BANDS,
    days_chart,
    last_days,
    sources,
)
from evaluation_pipelines.service.pages.domain.trends import BY, WHOLE
from evaluation_pipelines.service.pages.domain.worst_sessions import worst_of_day
from evaluation_pipelines.service.pages.losses import (
    not_stored,
    quarantine,
    recent_books,
    recent_states,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.service.pages.trends import groups, on_scale_of_today
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.telemetry.unread_files import ingest_lags

ROUTER = APIRouter(include_in_schema=False)

_DAYS = 14
_MOST_LABELS, _MOST_MODELS, _MOST_WORST = 3, 5, 5
_WORST_OF = ("last 7 days", "last week")
_Figures: TypeAlias = tuple[str, str, str]


@ROUTER.get("/")
def overview(visit: Visitor) -> HTMLResponse:
    """Show the state of everything on one screen, or which damaged file keeps it from view."""
    try:
        return _overview(visit)
    except DamagedPartError:
        if visit.caller.organization is not None:  # names of files are not for them
            raise
        return visit.page("overview_damaged", 503, needs=items_for(visit))


def _overview(visit: Visit) -> HTMLResponse:
    now = visit.installation.clock()
    rows = visit.rows()
    # From the first day of the trends on: their means and these have the same scale.
    usual = day_range(None, None, now.date())
    recent = rows.filter(pl.col("session_date") >= usual.first)
    scaled, turns = on_scale_of_today(visit, recent)
    days = last_days(scaled, now.date(), _DAYS)
    urls = [_day_url(visit, f"{each.date}") for each in days]
    worst = worst_of_day(rows, now.date(), _MOST_WORST)
    comparison = visit.comparison()
    changes, lines, books = usual_changes(visit), quarantine(visit), recent_books(visit)
    return visit.page(
        "overview",
        has_sessions=not rows.is_empty(),
        sources=sources(rows, now.date()),
        unread_bytes=_unread_bytes(visit),
        keeps_current=visit.request.app.state.live.keeps_current,
        now=now,
        days=list(zip(days, urls, strict=True)),
        chart=days_chart(days, urls),
        bands=BANDS,
        has_due=any(each.counts["due"] for each in days),
        turns=[each for each in turns if each.changed_on > days[0].date],
        needs=items_for(visit),
        lines=lines,
        not_stored=not_stored(visit),
        recent=recent_states(visit, books),
        worst=worst,
        worst_urls={
            "all": _day_url(visit, f"{worst.day}", sort="score"),
            "failed": _day_url(visit, f"{worst.day}", status="failed"),
            "low": _day_url(visit, f"{worst.day}", score="red"),
        }
        if worst
        else {},
        answers=[] if comparison is None else _answers(comparison),
        costs=[
            (name, days, cost, _trends_url(visit, days))
            for name, days, cost in costs_of_ranges(rows, now.date())
        ],
        unscored_url=_days_url(visit, usual, score="unscored"),
        worst_of_more=_worst_of_more(visit, now.date()),
        groups=_groups(visit, recent.filter(pl.col("session_date") <= usual.last)),
        remark=None if comparison is None else _too_few(comparison),
        changed=None if changes is None else changed_agents(changes, visit.frame.agent_url),
        is_compared=comparison is not None,
        caveat=None if comparison is None else demo_caveat(comparison),
        worse_models=[] if comparison is None else got_worse(comparison),
    )


def _answers(comparison: Comparison) -> list[tuple[Finding, Sequence[Answer], list[_Figures]]]:
    """Return the answers for the first labels, with name, score and cost of the best models."""
    return [
        (found, said, [_figures(row) for row in found.ranked[:_MOST_MODELS]])
        for found, said in ranked_answers(comparison)[:_MOST_LABELS]
    ]


def _figures(row: Row) -> _Figures:
    cost = usd(row["avg_cost_usd"]) if has_cost(row) else "unknown"
    return name_of(row), points(row["avg_score"]), cost


def _worst_of_more(visit: Visit, today: date) -> list[tuple[str, str, str]]:
    """Return names of days, and the URLs of their lowest scores and of their failed sessions."""
    return [
        (
            name,
            _days_url(visit, days, sort="score"),
            _days_url(visit, days, status="failed", sort="score"),
        )
        for name, days in named_ranges(today, None)
        if name in _WORST_OF
    ]


def _groups(visit: Visit, rows: pl.DataFrame) -> list[tuple[str, str, MostCosts]]:
    """Return the dimensions of trends, each with its URL and the value that costs most in rows."""
    return [
        (name, visit.frame.url("/trends", by=name, step=WHOLE), costs_most(rows, BY[name]))
        for name in groups(visit)
    ]


def _day_url(visit: Visit, day: str, **more: str) -> str:
    return visit.frame.url("/sessions", **{"from": day, "to": day, **more})


def _days_url(visit: Visit, days: DayRange, **more: str) -> str:
    return visit.frame.url("/sessions", **{"from": f"{days.first}", "to": f"{days.last}", **more})


def _trends_url(visit: Visit, days: DayRange) -> str:
    return visit.frame.url("/trends", **{"from": f"{days.first}", "to": f"{days.last}"})


def _unread_bytes(visit: Visit) -> int | None:
    """Return what is not ingested yet; ``None`` for callers of one organization."""
    if visit.caller.organization is not None:
        return None
    return sum(each.unread_bytes or 0 for each in ingest_lags(visit.stores)[0])


def _too_few(comparison: Comparison) -> str | None:
    return without_ranking(findings(comparison), comparison.question.min_runs)
