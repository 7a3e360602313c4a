"""Can the scores be trusted: what reviews say of each profile, and what changes of judges did."""

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from evaluation_pipelines.formatting import csv_text
from evaluation_pipelines.reporting.domain.judge_changes_report.page import change_content
from evaluation_pipelines.scorecards.audit_samples import calibration
from evaluation_pipelines.scorecards.open_samples import waiting_samples
from evaluation_pipelines.scorecards.recalibration import profile_leans
from evaluation_pipelines.service.pages.domain.trust import (
    AUDIT,
    CSV_COLUMNS,
    answer,
    sentence,
    trust_line,
    trust_row,
)
from evaluation_pipelines.service.pages.rendering import Visit, Visitor, download
from evaluation_pipelines.service.recent_judge_changes import ALL_CHANGES, RecentJudgeChanges
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter

ROUTER = APIRouter(include_in_schema=False)


@ROUTER.get("/judge")
def judge(visit: Visitor) -> HTMLResponse:
    """Show how far automatic scores agree with people's, and the changes of judges."""
    which = SessionFilter(organization=visit.organization)
    found = calibration(visit.stores, which)
    audits = [each for each in found if each.sample == AUDIT]
    leans = [each for each in profile_leans(visit.stores, which) if each.is_beyond_chance]
    waiting = len(waiting_samples(visit.stores, visit.organization))
    return visit.page(
        "judge",
        has_sessions=not visit.rows().is_empty(),
        answer=answer(found, waiting),
        sentences=[
            *(sentence(each) for each in audits if each.missing is None),
            *(f"{each.notice}." for each in leans),
        ],
        lines=[trust_line(each) for each in audits],
        changes=_changes(visit),
        csv_url=visit.frame.url("/judge.csv"),
    )


@ROUTER.get("/judge.csv")
def judge_csv(visit: Visitor) -> Response:
    """Return the agreement of automatic scores with people's, of every sample, as CSV."""
    found = calibration(visit.stores, SessionFilter(organization=visit.organization))
    rows = pl.DataFrame([trust_row(each) for each in found], CSV_COLUMNS, orient="row")
    return download("judge.csv", csv_text(rows))


def _changes(visit: Visit) -> list[dict[str, object]] | None:
    """Return the changes of judges, the newest first; ``None`` while they are being measured.

    Their scores are those of all organizations: there are none for who sees one alone.
    """
    if visit.caller.organization is not None:
        return []
    recent: RecentJudgeChanges = visit.request.app.state.recent_judge_changes
    found = recent.get(ALL_CHANGES, visit.installation.clock())
    return None if found is None else [change_content(each) for each in found]
