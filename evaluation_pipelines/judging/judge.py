"""Entry points of judging: a run over dates, or one session now."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, Plans, load_plans
from evaluation_pipelines.judging.runner.judge_run import LET_GO_S, JudgeRun, RunRequest
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.score_requests import RequestResult, request_score
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lock import LockTimeoutError
from evaluation_pipelines.storage.stores import Stores

_POLL_S = 1.0


class JudgeInterruptedError(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended a judge run; ``report`` counts what it did until then."""

    def __init__(self, report: JudgeReport) -> None:
        super().__init__()
        self.report = report


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def judge(
    stores: Stores,
    request: RunRequest,
    days: Sequence[date],
    overrides: PlanOverrides | None = None,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> JudgeReport:
    """Judge the due sessions of the session dates ``days``.

    Returns:
        The report; without a configured judge it only has a ``skip_reason``.

    Raises:
        JudgeNotReadyError: There is no profile of the name that is given.
        LockTimeoutError: Another process judges.
        LedgerError: The ledger cannot be used.
        JudgeInterruptedError: Ctrl-C or SIGTERM; the replies that arrived are kept.
    """
    why_not = stores.settings.why_no_judge
    if why_not is not None:
        return JudgeReport(skip_reason=why_not)
    plans = load_plans(stores, clock(), overrides)
    return _run(JudgeRun(stores, plans, request, clock, progress or Silent()), days)


def continue_batches(
    stores: Stores,
    triggered_by: str,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
    patience_s: float = 0.0,
) -> JudgeReport:
    """Collect the batches that have ended, and go on with the sessions that were begun.

    No other session is started. ``patience_s`` is as in ``RunRequest``. Raises as ``judge``.
    """
    why_not = stores.settings.why_no_judge
    if why_not is not None:
        return JudgeReport(skip_reason=why_not)
    request = RunRequest(triggered_by, patience_s=patience_s, only_continue=True)
    run = JudgeRun(stores, load_plans(stores, clock()), request, clock, progress or Silent())
    return _run(run, stores.lake.partitions(AGENT_SESSIONS))


def _run(run: JudgeRun, days: Sequence[date]) -> JudgeReport:
    try:
        return run.run(days)
    except KeyboardInterrupt as interrupt:
        raise JudgeInterruptedError(run.interrupted_report()) from interrupt


def judge_session(
    stores: Stores,
    plans: Plans,
    query: SessionName,
    request: RunRequest,
    *,
    force: bool,
    clock: Callable[[], datetime] = utc_now,
    on_wait: Callable[[LockTimeoutError], None] = lambda _: None,
) -> tuple[RequestResult, JudgeReport | None]:
    """Request the score of one session and wait for it.

    The session is judged here, or by whoever judges already; ``on_wait`` is told about that.

    Returns:
        The answer to the request with the current scoring, and the report of the run, which is
        ``None`` if no run was needed. If the scoring is still open, the report says why it could
        not be finished.

    Raises:
        As ``request_score`` and ``judge``.
    """
    result = request_score(stores, plans, query, request.triggered_by, clock(), force=force)
    score, report, let_go_for = result.score, None, set[str]()
    if result.answer.action not in {"create", "existing"}:
        return result, None
    while score is not None and score.is_open and score.batch_id is None:
        patient = replace(request, patience_s=_POLL_S)
        run = JudgeRun(stores, plans, patient, clock, let_go_for=let_go_for)
        try:
            report = run.serve()
        except LockTimeoutError as busy:
            report = None
            on_wait(busy)
        score = ScoreStore(stores.ledger).get(score.score_id)
        if report is not None:
            if not report.deferred[LeftOpenReason.YIELDED]:
                break  # what it could not finish waits
            time.sleep(LET_GO_S)
    return replace(result, score=score), report
