"""Agreement of scores with people, sources of scores, status, cost and changes of the judge."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import JUDGE_DOWN
from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.judging.ledger.score_queries import newest_scoring, scorings_of_day
from evaluation_pipelines.scorecards.blind_reviews import calibration, profile_leans
from evaluation_pipelines.scorecards.domain.calibration import AGREEMENT_COLUMNS, Agreement
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.service.pages.domain.days import DayRange, day_range
from evaluation_pipelines.service.pages.domain.judge_changes import change_content
from evaluation_pipelines.service.pages.domain.judge_status import (
    day_of_judge,
    state_of_judge,
    who_scored,
)
from evaluation_pipelines.service.pages.domain.trust import (
    AUDIT,
    answer,
    sentence,
    trust_line,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, download
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter

ROUTER = APIRouter(include_in_schema=False)


@ROUTER.get("/operations/judge")
def judge(visit: Visitor) -> HTMLResponse:
    """Show how far automatic scores agree with human ones, and the changes of the judge."""
    overrides = _overrides(visit)
    found = calibration(visit.stores, overrides)
    audits = [each for each in found if each.sample == AUDIT]
    leans = [each for each in profile_leans(visit.stores, overrides) if each.is_beyond_chance]
    lines = [trust_line(each) for each in audits]
    return visit.page(
        "judge",
        **judge_summary(visit, found),
        has_sessions=not visit.rows().is_empty(),
        sentences=[
            *(sentence(each) for each in audits if each.missing is None),
            *(f"{each.notice}." for each in leans),
        ],
        lines=lines,
        is_measured=any(not each.lacks for each in lines),
        changes=_changes(visit),
        recent=_recent(visit),
        csv_url=visit.frame.url("/operations/judge.csv"),
    )


def judge_summary(visit: Visit, found: Sequence[Agreement] | None = None) -> dict[str, Any]:
    """Return score quality, status of the judge and what it did today, for a template.

    ``found`` is the agreement of all profile versions, if it is known.
    """
    if found is None:
        found = calibration(visit.stores, _overrides(visit))
    waiting = len(visit.to_review)
    return {
        "quality": answer(found, waiting),
        "judge_state": _state(visit),
        "judge_today": _today(visit),
    }


@ROUTER.get("/operations/judge.csv")
def judge_csv(visit: Visitor) -> Response:
    """Return the agreement of automatic scores with people's, of every sample, as CSV."""
    found = calibration(visit.stores, _overrides(visit))
    rows = pl.DataFrame([each.record() for each in found], AGREEMENT_COLUMNS, orient="row")
    return download("judge.csv", csv_text(rows))


def _overrides(visit: Visit) -> pl.DataFrame:
    which = SessionFilter(organization=visit.organization)
    return overrides_with_states(visit.stores, which)


def _recent(visit: Visit) -> tuple[DayRange, str]:
    """Return the last 28 complete days, and who scored their sessions."""
    days = day_range(None, None, visit.installation.clock().date())
    return days, who_scored(visit.rows().filter(pl.col("session_date").is_between(*days.ends)))


def _state(visit: Visit) -> tuple[str, str]:
    settings = visit.installation.settings
    newest = AlertStore(visit.stores.ledger).newest(JUDGE_DOWN)
    is_down = newest is not None and newest.ended_at is None
    down = newest.alert.text.partition("\n")[0] if newest is not None and is_down else None
    scored = newest_scoring(visit.stores.ledger, settings.judge_model, visit.organization)
    return state_of_judge(settings.judge_model, settings.why_no_judge, down, scored)


def _today(visit: Visit) -> str:
    """Return what the judge did today; its limit concerns all organizations together."""
    day = scorings_of_day(visit.stores.ledger, visit.installation.clock(), visit.organization)
    limit = visit.installation.settings.judge_max_cost_per_day_usd
    return day_of_judge(day, limit if visit.organization is None else None)


def _changes(visit: Visit) -> list[dict[str, object]] | None:
    """Return the changes of judges, the newest first; ``None`` while they are being measured.

    Their scores are those of all organizations: there are none for who sees one alone.
    """
    if visit.caller.organization is not None:
        return []
    found = visit.kept.judge_changes.get(None, visit.installation.clock())
    return None if found is None else [change_content(each) for each in found]
