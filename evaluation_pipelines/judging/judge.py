"""Judging as people and schedules ask for it: a run over dates, or one session now."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, Plans, load_plans
from evaluation_pipelines.judging.runner.judge_run import JudgeRun
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.judging.score_requests import RequestResult, SessionQuery, request_score
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.stores import Stores

_LOOK_AGAIN_S = 1.0


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def judge(
    stores: Stores,
    order: RunRequest,
    days: Sequence[date],
    overrides: PlanOverrides | None = None,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> JudgeReport:
    """Judge what is due of some session dates, or say why nothing can be judged.

    Raises:
        JudgeNotReadyError: a rubric or profile is named that is not there.
        RubricError: a rubric cannot be used.
        LedgerError: the ledger cannot be used.
    """
    why_not = stores.settings.why_no_judge
    if why_not is not None:
        return JudgeReport(skipped=why_not)
    plans = load_plans(stores, clock(), overrides)
    return JudgeRun(stores, plans, order, clock, progress or Silent()).run(days)


def judge_session(
    stores: Stores,
    plans: Plans,
    wanted: SessionQuery,
    order: RunRequest,
    *,
    force: bool,
    clock: Callable[[], datetime] = utc_now,
) -> tuple[RequestResult, JudgeReport | None]:
    """Ask for the score of one session and wait for it, doing the work unless somebody else does.

    Returns:
        What became of the request, with the scoring as it is now, and the report of the run that
        worked on it, None where there was nothing to do. The scoring may be open still: then the
        report says why it could not be brought to its end.

    Raises:
        As ``request_score`` and ``judge`` do.
    """
    requested = request_score(stores, plans, wanted, order.triggered_by, clock(), force=force)
    score, report = requested.score, None
    if requested.answer.action not in {"create", "existing"}:
        return requested, None
    while score is not None and score.is_open:
        report = _work_on(stores, plans, order, score, clock)
        score = ScoreStore(stores.ledger).get(score.score_id)
        if score.is_open and report.candidates:
            break  # it was tried, and could not be brought to its end now
        if score.is_open:
            time.sleep(_LOOK_AGAIN_S)  # somebody else is at work on it
    return replace(requested, score=score), report


def _work_on(
    stores: Stores, plans: Plans, order: RunRequest, score: Score, clock: Callable[[], datetime]
) -> JudgeReport:
    chosen = replace(order, chosen=(score.organization_id, score.session_key))
    return JudgeRun(stores, plans, chosen, clock).run([score.session_date])
