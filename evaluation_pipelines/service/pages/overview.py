"""The first page: is telemetry arriving, how did the last days go, what needs me, which model."""

from collections.abc import Sequence
from typing import TypeAlias

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.attention.domain.messages import RISE
from evaluation_pipelines.comparison.domain.answers import (
    Answer,
    demo_caveat,
    label_answers,
    without_ranking,
)
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import Finding
from evaluation_pipelines.comparison.domain.models import Row, has_cost, name_of
from evaluation_pipelines.formatting import points, usd
from evaluation_pipelines.judge_changes.domain.judges import is_one_scale
from evaluation_pipelines.service.pages.agents import usual_changes
from evaluation_pipelines.service.pages.books import (
    recent_books,
    recent_states,
)
from evaluation_pipelines.service.pages.domain.days import (
    BANDS,
    DayRange,
    day_range,
    days_chart,
    last_days,
    range_costs,
    span_of,
    tiles,
)
from evaluation_pipelines.service.pages.domain.session_lines import changed_agents, worst_on_day
from evaluation_pipelines.service.pages.domain.trends import WHOLE
from evaluation_pipelines.service.pages.judge import judge_summary
from evaluation_pipelines.service.pages.operations import needs_of
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.service.pages.trends import groups, on_todays_scale
from evaluation_pipelines.storage.lake import DamagedPartError

ROUTER = APIRouter(include_in_schema=False)

_DAYS, _WEEK_DAYS = 14, 7
_MOST_LABELS, _MOST_MODELS, _MOST_WORST = 3, 5, 5
_Figures: TypeAlias = tuple[str, str, str]


@ROUTER.get("/")
def overview(visit: Visitor) -> HTMLResponse:
    """Show the state of everything on one screen, or which damaged file keeps it from view."""
    try:
        return _overview(visit)
    except DamagedPartError:
        if visit.caller.organization is not None:  # names of files are not for them
            raise
        return visit.page("overview_damaged", 503, **needs_of(visit))


def _overview(visit: Visit) -> HTMLResponse:
    now = visit.installation.clock()
    rows = visit.rows()
    # From the first day of the trends on: their means and these have the same scale.
    usual = day_range(None, None, now.date())
    recent = rows.filter(pl.col("session_date") >= usual.first)
    scaled, turns = on_todays_scale(visit, recent)
    days = last_days(scaled, now.date(), _DAYS)
    urls = [_day_url(visit, f"{day.date}") for day in days]
    worst = worst_on_day(rows, now.date(), _MOST_WORST)
    comparison = visit.comparison()
    needs = needs_of(visit)
    changes, week = usual_changes(visit), DayRange.before_day(now.date(), _WEEK_DAYS)
    return visit.page(
        "overview",
        has_sessions=not rows.is_empty(),
        keeps_current=visit.request.app.state.live.keeps_current,
        days=list(zip(days, urls, strict=True)),
        chart=days_chart(days, urls),
        bands=BANDS,
        has_due=any(day.counts["due"] for day in days),
        turns=[turn for turn in turns if turn.changed_on > days[0].date],
        **needs,
        **judge_summary(visit),
        rising=[need for need in needs["needs"] if need.kind == RISE],
        recent=recent_states(visit, recent_books(visit)),
        tiles=tiles(
            *(span_of(scaled, *span.ends) for span in (week, week.before)),
            has_one_scale=is_one_scale(turns, week.before.first, week.last),
        ),
        week=week,
        today=span_of(scaled, now.date(), now.date()),
        today_url=urls[-1],
        team_url=_team_url(visit),
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
            for name, days, cost in range_costs(rows, now.date())
        ],
        unscored_url=_days_url(visit, usual, score="unscored"),
        remark=None if comparison is None else without_ranking(comparison),
        changed=None if changes is None else changed_agents(changes, visit.frame.agent_url),
        is_compared=comparison is not None,
        caveat=None if comparison is None else demo_caveat(comparison),
    )


def _answers(comparison: Comparison) -> list[tuple[Finding, Sequence[Answer], list[_Figures]]]:
    """Return the answers for the first labels, with name, score and cost of the best models."""
    return [
        (
            answer.finding,
            answer.answers,
            [_figures(row) for row in answer.finding.ranked[:_MOST_MODELS]],
        )
        for answer in label_answers(comparison)[:_MOST_LABELS]
        if answer.answers
    ]


def _figures(row: Row) -> _Figures:
    cost = usd(row["avg_cost_usd"]) if has_cost(row) else "unknown"
    return name_of(row), points(row["avg_score"]), cost


def _team_url(visit: Visit) -> str | None:
    """Return the URL of a line for each team; ``None`` if teams are not shown."""
    if "team" not in groups(visit):
        return None
    return visit.frame.url("/trends", by="team", step=WHOLE)


def _day_url(visit: Visit, day: str, **more: str) -> str:
    return visit.frame.url("/sessions", **{"from": day, "to": day, **more})


def _days_url(visit: Visit, days: DayRange, **more: str) -> str:
    return visit.frame.url("/sessions", **{"from": f"{days.first}", "to": f"{days.last}", **more})


def _trends_url(visit: Visit, days: DayRange) -> str:
    return visit.frame.url("/trends", **{"from": f"{days.first}", "to": f"{days.last}"})
