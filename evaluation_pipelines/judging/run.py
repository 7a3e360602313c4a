"""Judging: a run over dates, one session now, and the event loop in which they judge."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import TypeVar

from evaluation_pipelines.judging.batch.collect import Collection
from evaluation_pipelines.judging.batch.send import batch_files
from evaluation_pipelines.judging.context import BudgetGate, LedgerWriter, RunContext
from evaluation_pipelines.judging.domain.budget import Budget, BudgetLimits
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi, in_thread
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import SharedBreakers, judge_budget_limits
from evaluation_pipelines.judging.find_due import Candidate, DueSessions, find_due
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_queries import ScoreEndedError, UnknownScoreError
from evaluation_pipelines.judging.ledger.score_store import (
    Failure,
    ScoreStore,
    clear_left,
    release,
)
from evaluation_pipelines.judging.plans import PlanOverrides, Plans, labels, load_plans
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.runner import Interruption, Runner, terminated_as_interrupted
from evaluation_pipelines.judging.score_requests import RequestLane, RequestResult, request_score
from evaluation_pipelines.judging.session_windows import WindowKey, window_key
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.lock import JUDGE, Hold, LockTimeoutError, held, holders
from evaluation_pipelines.storage.stores import Stores

_Number = TypeVar("_Number", int, float)

_POLL_S = 1.0
"""Seconds that a waiting caller tries to get the lock before it looks at the score again."""

_REQUESTS_BESIDE_A_RUN = 4
"""Requests of people that are served at a time while a run has sessions of its own."""


@dataclass(frozen=True, slots=True)
class RunStores:
    """Where a run reads sessions and writes judgments, and the lock that it holds.

    ``wire`` answers all requests in place of the endpoint, if given. ``interruption`` can end the
    run from another thread. ``breakers`` are those of the process, if it has several runs.
    ``let_go_for`` has the requests for other judges that the lock was left to already; ``None`` if
    the run cannot let go. ``served`` counts what was judged on request.
    """

    stores: Stores
    plans: Plans
    scores: ScoreStore
    hold: Hold
    clock: Callable[[], datetime]
    wire: Wire | None = None
    interruption: Interruption = field(default_factory=Interruption)
    breakers: SharedBreakers | None = None
    let_go_for: set[str] | None = None
    served: JudgeReport = field(default_factory=JudgeReport)


@terminated_as_interrupted()
def judge_by(
    run: RunStores,
    budget: Budget,
    report: JudgeReport,
    triggered_by: str,
    progress: Progress,
    work: Callable[[Runner], Awaitable[None]],
    *,
    is_for_requests: bool = False,
) -> None:
    """Do some work of a judge within the budget, and count its results and all calls.

    Requests of people are served meanwhile, and then until none is left. After an error or an
    interruption the judgments wait for the next judge, with the replies received so far.

    Args:
        run: Stores, plans and the lock.
        budget: Budget of the work.
        report: Counts it.
        triggered_by: As in ``RunRequest``.
        progress: Shows it.
        work: What is done.
        is_for_requests: Whether there is no other work.

    Raises:
        LedgerError: The ledger cannot be used.
        LockLostError: Another process may judge now.
    """
    ledger = LedgerWriter(run.scores)
    ways = run.clock, run.wire, run.breakers
    stores = run.stores
    context = RunContext(ledger, BudgetGate(budget), stores.lake, stores.settings, run.hold, *ways)
    runner = Runner(context, report, triggered_by, progress)

    async def serve() -> None:
        concurrency, others = stores.settings.judge_concurrency, run.let_go_for
        most = concurrency if is_for_requests else min(_REQUESTS_BESIDE_A_RUN, concurrency)

        def let_go(reason: str) -> None:
            context.lets_go = reason
            report.explanations.setdefault(LeftOpenReason.YIELDED, reason)
            runner.stop(LeftOpenReason.YIELDED, reason)

        async with context:
            given = (set[str](), None) if others is None else (others, let_go)
            lane = RequestLane(context, stores, run.plans, most, *given)
            try:
                async with lane.serving():
                    await work(runner)
            finally:
                for served in lane.reports.values():
                    run.served.add(served)
                report.calls += context.requests_sent

    try:
        asyncio.run(run.interruption.guard(serve()))
    except BaseExceptionGroup as group:  # of tasks: the first one ended all others
        raise _first(group) from group
    finally:
        ledger.close()
        release(stores.ledger, run.hold)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


LET_GO_S = 6.0
"""Time in which a process waiting for another judge takes the lock: a service looks every 2 s."""

_OTHER_JUDGE_S = 3600.0
"""Time to wait until that one has ended."""


def judge_in_turns(
    ledger: Ledger, patience_s: float, judge: Callable[[Hold], bool], let_go_for: set[str]
) -> None:
    """Call ``judge`` with the lock, and again after a judge it has let go for; ``True`` says so.

    What is left when that one has not ended in an hour is left to the next run.

    Args:
        ledger: The ledger.
        patience_s: Seconds to wait for another process that judges.
        judge: What is done; it leaves what it has not finished.
        let_go_for: Requests for other judges. It is emptied if the lock is taken meanwhile,
            perhaps by another run, so that ``judge`` lets go for them once more.

    Raises:
        LockTimeoutError: Another process judges; nothing was done.
    """
    has_begun = False
    while True:
        try:
            with held(ledger, JUDGE, timeout_s=patience_s) as hold:
                clear_left(ledger, hold)
                has_let_go, has_begun = judge(hold), True
        except LockTimeoutError:
            if not has_begun:
                raise
            return
        if not has_let_go:
            return
        time.sleep(LET_GO_S)
        if any(holder.name == JUDGE for holder in holders(ledger)):
            let_go_for.clear()
        patience_s = max(patience_s, _OTHER_JUDGE_S)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request for a judge run.

    Attributes:
        triggered_by: A person, ``schedule``, ``sensor`` or the id of a Dagster run.
        extra: Sessions to judge in addition to the due ones.
        max_sessions: Tighter limit than that of the settings; ``None`` for no further limit.
        max_cost_usd: Tighter limit than that of the settings; ``None`` for no further limit.
        patience_s: Seconds to wait for another process that judges.
        only_continue: Whether only batches are collected, and begun sessions continued.
    """

    triggered_by: str
    extra: ExtraDue = field(default_factory=ExtraDue)
    max_sessions: int | None = None
    max_cost_usd: float | None = None
    patience_s: float = 0.0
    only_continue: bool = False

    @property
    def is_automatic(self) -> bool:
        """Whether no person has started the run."""
        return self.triggered_by in {"schedule", "sensor"}


@dataclass(slots=True)
class JudgeRun:
    """One judge run; create a new object for each run.

    Tests replace ``clock``. ``wire`` answers all requests in place of the endpoint, if given.
    ``interruption`` can end the run from another thread; it raises ``asyncio.CancelledError`` then.
    ``breakers`` are those of the process, if it has several runs. ``let_go_for`` has the requests
    that this judge cannot serve; it lets go once for each.
    """

    stores: Stores
    plans: Plans
    request: RunRequest
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    progress: Progress = field(default_factory=Silent)
    wire: Wire | None = None
    interruption: Interruption = field(default_factory=Interruption)
    breakers: SharedBreakers | None = None
    let_go_for: set[str] = field(default_factory=set)
    _report: JudgeReport = field(default_factory=JudgeReport)
    _refusal: str | None = None
    _known: dict[tuple[WindowKey, str], int | None] = field(default_factory=dict)

    @terminated_as_interrupted()
    def run(self, days: Sequence[date]) -> JudgeReport:
        """Judge the due sessions of the session dates ``days``, and serve requests meanwhile.

        Without a configured judge the report only has a ``skip_reason``. A run that lets go because
        a person waits for another judge goes on when that one has ended.

        Raises:
            LockTimeoutError: Another process judges; nothing was done.
            LockLostError: Another process may judge now; the replies that arrived are stored.
            LedgerError: The ledger cannot be used.
        """
        self._report.skip_reason = self.stores.settings.why_no_judge
        if self._report.skip_reason is not None:
            return self._report
        budget = Budget(self._limits())

        def judge(hold: Hold) -> bool:
            self._report.take_yielded()
            self._collect_and_judge(days, hold, budget)
            # What people have asked for waits in the ledger, and is asked for again.
            return bool(days and self._report.deferred[LeftOpenReason.YIELDED])

        judge_in_turns(self.stores.ledger, self.request.patience_s, judge, self.let_go_for)
        if not self._report.deferred[LeftOpenReason.YIELDED]:
            self._report.take_yielded()
        return self._report

    def serve(self) -> JudgeReport:
        """Judge what people ask for until none is left, or another judge is wanted.

        Raises as ``run``.
        """
        return self.run([])

    def interrupted_report(self) -> JudgeReport:
        """Return the counts of a run that raised ``KeyboardInterrupt``."""
        self._report.count_interrupted()
        return self._report

    def _collect_and_judge(self, days: Sequence[date], hold: Hold, budget: Budget) -> None:
        """Collect batches of any date, then judge what is due of ``days``."""
        report, batches = self._report, BatchStore(self.stores.ledger, hold)
        if not self.request.only_continue and not (days and batches.unfinished()):
            self._judge_days(days, hold, budget)
            return
        collected, by = self._batch_report(), self.request.triggered_by
        # A request for another judge waits until what has arrived is stored.
        run = replace(self._run_stores(hold), let_go_for=None)
        collection = Collection(self.plans, batches)
        try:
            with self._batch_api() as api:
                collect = partial(collection.run, api)
                judge_by(run, Budget(BudgetLimits()), collected, by, self.progress, collect)
        finally:
            collected.candidates = collected.handled
            why, collected.stop_reason = collected.stop_reason, None
            why = why or collection.refusal
            report.add(collected)
            report.add_requests(run.served)
        self._refusal = collection.refusal
        try:
            if not self.request.only_continue or collected.collected or collection.is_split:
                self._judge_days(days, hold, budget)
        finally:
            report.stop_reason = report.stop_reason or why
        if collected.collected:
            report.skip_reason = None

    def _batch_report(self) -> JudgeReport:
        """Return an empty report that knows which scores of batches will count."""
        report = JudgeReport(excluded_flags=self.stores.settings.judge_exclude_flagged)
        waiting = [
            open_score
            for open_score in ScoreStore(self.stores.ledger).open_scores()
            if open_score.batch_id is not None
        ]
        with suppress(LakeError):  # what the judge has said is collected in any case
            found = labels(self.stores, waiting)
            for score in waiting:
                key = score.organization_id, score.session_key
                version = score.judge_profile_id, score.judge_profile_version
                plan = self.plans.by_version.get(version)
                if key in found and plan is not None:
                    report.why_not_counted[key] = self.plans.why_not_counted(found[key], plan)
        return report

    def _judge_days(self, days: Sequence[date], hold: Hold, budget: Budget) -> None:
        settings, report = self.stores.settings, self._report
        found = find_due(self.stores, self.plans, days, self.clock(), self.request.extra)
        found = self._without_judged(found.without_requests())
        if self.request.only_continue:
            begun = [due for due in found.candidates if due.unfinished is not None]
            found = replace(found, candidates=begun)
        why_off = settings.why_no_automatic_judging if self.request.is_automatic else None
        if why_off is not None:
            found = found.requested()
        report.states, report.unreadable = found.states, found.unreadable
        report.faults = found.faults
        report.excluded_flags = settings.judge_exclude_flagged
        for candidate in found.candidates:
            why = self.plans.why_not_counted(candidate.window.classification_label, candidate.plan)
            report.why_not_counted[window_key(candidate.window)] = why
        report.outdated = found.outdated
        report.candidates = report.handled + len(found.candidates)
        self._fail_discarded(found, hold)
        self._judge_all(found.candidates, hold, budget)
        if why_off is not None and not (report.candidates or report.discarded):
            report.skip_reason = why_off

    def _without_judged(self, found: DueSessions) -> DueSessions:
        """Leave out what was judged since the run first found it, before it let go.

        By force it would be due for ever.
        """
        left = []
        for candidate in found.candidates:
            key = window_key(candidate.window), candidate.plan.setup.profile_id
            is_begun = candidate.unfinished is not None
            if (
                is_begun
                or self._known.setdefault(key, candidate.known_scorings) == candidate.known_scorings
            ):
                left.append(candidate)
        return replace(found, candidates=left)

    def _judge_all(self, candidates: Sequence[Candidate], hold: Hold, budget: Budget) -> None:
        run, by = self._run_stores(hold), self.request.triggered_by
        if not candidates and not run.scores.requests(self.clock()):
            return

        async def judge(runner: Runner) -> None:
            is_batch = self.stores.settings.judge_mode == "batch" and self.wire is None
            if not is_batch or not candidates:
                await runner.judge(candidates)
                return
            batches = BatchStore(self.stores.ledger, hold)
            with (
                self._batch_api() as api,
                batch_files(runner.context, self._report, batches, api) as runner.files,
            ):
                # Without these routes nothing is created: the sessions are due, as they were.
                refusal = self._refusal or await in_thread(api.why_not)
                if refusal is not None:
                    runner.stop(LeftOpenReason.ENDPOINT_DOWN, refusal)
                await runner.judge(candidates)

        try:
            judge_by(
                *(run, budget, self._report, by, self.progress, judge),
                is_for_requests=not candidates,
            )
        finally:
            self._report.add_requests(run.served, is_all=not candidates)
            self._report.booked_usd = budget.spent_usd

    def _batch_api(self) -> BatchApi:
        settings = self.stores.settings
        if settings.judge_endpoint is None:
            raise RuntimeError("no endpoint is configured: check `why_no_judge` first")
        return BatchApi(settings.judge_endpoint, settings.judge_timeout_seconds)

    def _run_stores(self, hold: Hold) -> RunStores:
        scores = ScoreStore(self.stores.ledger, hold=hold)
        ways = self.clock, self.wire, self.interruption, self.breakers, self.let_go_for
        return RunStores(self.stores, self.plans, scores, hold, *ways)

    def _limits(self) -> BudgetLimits:
        limits = judge_budget_limits(self.stores.settings)
        return replace(
            limits,
            max_sessions=_tighter(limits.max_sessions, self.request.max_sessions),
            max_run_usd=_tighter(limits.max_run_usd, self.request.max_cost_usd),
        )

    def _fail_discarded(self, found: DueSessions, hold: Hold) -> None:
        """Mark unfinished judgments that cannot be resumed as failed."""
        scores = ScoreStore(self.stores.ledger, hold=hold)
        for score, reason in found.discarded:
            with suppress(ScoreEndedError, UnknownScoreError):  # the session was forgotten
                failure = Failure(
                    f"left unfinished and cannot be resumed: {reason}", retriable=True
                )
                failed = scores.fail(score.score_id, failure, self.clock())
                self._report.count_discarded(failed, reason)


def _tighter(one: _Number | None, other: _Number | None) -> _Number | None:
    given = [result for result in (one, other) if result is not None]
    return min(given, default=None)


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
    run = JudgeRun(stores, plans, request, clock, progress or Silent())
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

    The session is judged here, or by the process that judges already: ``on_wait`` gets its name.

    Returns:
        The answer to the request with the current judgment, and the report of the run, which is
        ``None`` if no run was needed. If the judgment is still open, the report says why it could
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
