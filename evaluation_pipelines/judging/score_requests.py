"""Requests for the score of one session: asked, looked up, and served.

The process that judges serves them first, next to its own sessions. They wait in the ledger with
the judge that was asked for. They have a permit of their own and count on the budget of the day,
not on that of the run. A run whose judge is another one ends its calls and lets the requester have
the lock.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Literal, TypeVar
from uuid import uuid4

from evaluation_pipelines.formatting import one_line
from evaluation_pipelines.judging.context import PrioritySemaphore, RunContext
from evaluation_pipelines.judging.domain.budget import Budget
from evaluation_pipelines.judging.domain.due import (
    NIGHTLY,
    RequestAnswer,
    Window,
    answer_lookup,
    answer_request,
    is_by_another_judge,
)
from evaluation_pipelines.judging.domain.prompt.redaction import personal_kinds, redact
from evaluation_pipelines.judging.endpoint.configured import endpoint_of, judge_budget_limits
from evaluation_pipelines.judging.find_due import Candidate, find_due
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_queries import ScoringOpenError, UnknownScoreError
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, Plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.runner import Runner
from evaluation_pipelines.judging.session_windows import window_key, window_of
from evaluation_pipelines.profiles.domain.registry import CARD_VERSION
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.sessions.domain.find_session import (
    AmbiguousSessionError,
    SessionNotFoundError,
)
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.lock import LockLostError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import from_us, to_us

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RequestResult:
    """Answer to a request, with the window and the judgment if they exist."""

    answer: RequestAnswer
    window: Window | None
    score: Score | None


def request_score(
    stores: Stores,
    plans: Plans,
    query: SessionName,
    by: str,
    now: datetime,
    *,
    force: bool,
) -> RequestResult:
    """Request the score of a session.

    ``answer_request`` decides what happens; a new judgment is ``pending``. Concurrent requests for
    the same session get the same scoring.

    Args:
        stores: Lake, ledger and settings.
        plans: Plans of the run.
        query: The session.
        by: The requester.
        now: The time.
        force: Score the session again even if it is scored.

    Raises:
        AmbiguousSessionError: Several windows match.
        JudgeNotReadyError: No judge profile matches the session.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    window = retry_once(lambda: _find_window(stores, query, now))
    if window is None:
        return RequestResult(answer_request(None, force=force, is_known=False), None, None)
    days = [window.session_date]
    cards = retry_once(lambda: stores.lake.read(SCORECARDS, days, list(CARD_VERSION)))
    plan = plans.for_windows([window], cards)[window_key(window)]
    if plan is None:
        label = window.classification_label
        raise JudgeNotReadyError(
            plans.faults_of([window], cards).get(window_key(window))
            or f"a judge profile must list the label {label!r} before its sessions can be judged"
        )
    return retry_once(lambda: _answer(stores, window, plan, by, now, force=force))


def look_up(stores: Stores, query: SessionName, now: datetime) -> RequestResult:
    """Return the newest judgment of a session by any profile.

    Raises:
        AmbiguousSessionError: Several windows match.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    window = retry_once(lambda: _find_window(stores, query, now))
    if window is None:
        return RequestResult(answer_lookup(None), None, None)
    found = retry_once(
        lambda: ScoreStore(stores.ledger).by_session(window.organization_id, window.session_key)
    )
    newest = found[-1] if found else None
    return RequestResult(answer_lookup(None if newest is None else newest.status), window, newest)


def answer_without_judge(
    stores: Stores, query: SessionName, now: datetime, *, force: bool
) -> RequestResult:
    """Answer a request for a score where nothing can be scored.

    The caller refuses the action ``create``.

    Raises:
        AmbiguousSessionError: Several windows match.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    found = look_up(stores, query, now)
    window, score = found.window, found.score
    if window is None:
        return RequestResult(answer_request(None, force=force, is_known=False), None, None)
    if score is not None and not score.is_open and score.content_hash != window.content_hash:
        score = None
    answer = answer_request(
        None if score is None else score.status,
        force=force,
        is_terminal=window.is_terminal,
        has_expired=window.expired is not None,
    )
    return RequestResult(answer, window, score)


def retry_once(step: Callable[[], _Result]) -> _Result:
    """Run an operation on the stores and repeat it once if it fails."""
    try:
        return step()
    except (LedgerError, LakeError):
        return step()


def _find_window(stores: Stores, query: SessionName, as_of: datetime) -> Window | None:
    """Return the session window of a request; ``None`` if it does not exist.

    Raises:
        AmbiguousSessionError: Several windows match.
    """
    try:
        return window_of(stores, find(stores, query), as_of)
    except AmbiguousSessionError:
        raise
    except SessionNotFoundError:
        return None


def _answer(
    stores: Stores, window: Window, plan: JudgePlan, by: str, now: datetime, *, force: bool
) -> RequestResult:
    """Answer by the status table, and create the judgment if it says so."""
    store, endpoint = ScoreStore(stores.ledger), endpoint_of(stores.settings)
    scores = store.by_session(window.organization_id, window.session_key)
    of_profile = [score for score in scores if score.judge_profile_id == plan.setup.profile_id]
    existing = _newest(of_profile, window, plan)
    answer = answer_request(
        None if existing is None else existing.status,
        force=force,
        is_held=existing is not None and not existing.is_left,
        is_terminal=window.is_terminal,
        has_expired=window.expired is not None,
    )
    if answer.action == "existing" and existing is not None and existing.is_open:
        asked = store.request(existing.score_id, by, now, endpoint)
        return RequestResult(answer, window, asked)
    if answer.action != "create":
        return RequestResult(answer, window, existing)
    new = Candidate(window, plan, None).new_score(str(uuid4()), by, now, by)
    try:
        new = replace(new, endpoint=endpoint)
        score = store.create(new, now, known_scorings=len(of_profile))
    except ScoringOpenError:
        # A concurrent request created a judgment, which decides the answer now.
        return _answer(stores, window, plan, by, now, force=force)
    return RequestResult(answer, window, score)


def _newest(of_profile: list[Score], window: Window, plan: JudgePlan) -> Score | None:
    """Return the newest judgment that is open or of the current content and profile version."""
    setup = plan.setup
    current = [
        score
        for score in of_profile
        if (score.is_open and score.judge_model == setup.model)
        or (
            score.content_hash == window.content_hash
            and score.judge_profile_version == setup.profile_version
        )
    ]
    return current[-1] if current else None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Mode of an unfinished judgment, and when its result is expected.

    Attributes:
        mode: Whether its requests are sent in a batch.
        expected_by: When the provider answers a turn of a batch, which another one may follow;
            ``None`` if that is not known.
        next_try_at: When it is tried again at the earliest; ``None`` as soon as a judge is free.
        deferred_because: Why it was left for later; ``None`` if it was not.
    """

    mode: Literal["direct", "batch"]
    expected_by: datetime | None = None
    next_try_at: datetime | None = None
    deferred_because: str | None = None

    @property
    def next_try(self) -> str:
        """Tell what a judgment that no judge works on waits for."""
        at = self.next_try_at
        when = "" if at is None else f", next try {at.astimezone(UTC):%H:%M} UTC"
        return f"It waits for the judge{when}"


def waiting(stores: Stores, score: Score) -> Waiting | None:
    """Return how an unfinished judgment is being judged; ``None`` if it has ended."""
    if not score.is_open:
        return None
    if score.batch_id is None:
        tried_at = None if score.next_try_at_us is None else from_us(score.next_try_at_us)
        return Waiting(
            "direct", next_try_at=tried_at, deferred_because=_why_deferred(stores, score)
        )
    batch = BatchStore(stores.ledger).get(score.batch_id)
    if batch is None or batch.expected_by_us is None:
        return Waiting("batch")
    return Waiting("batch", from_us(batch.expected_by_us))


def _why_deferred(stores: Stores, score: Score) -> str | None:
    """Return the reason in the newest event of a judgment, if that is a deferral."""
    if score.status != "pending":
        return None
    is_of_it = SERVICE_EVENTS.c.score_id == score.score_id
    newest = ServiceEvents(stores.ledger).newest(1, is_of_it)
    return newest[0].error_message if newest and newest[0].type == "scoring.deferred" else None


LOG = logging.getLogger("evaluation_pipelines.judging.score_requests")

_POLL_S = 1.0
_POLL_AT_END_S = 0.1

_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=15), timedelta(minutes=10)

_MAX_WAITS = 3
"""How often a request waits for an endpoint that is down before it fails: for two minutes."""

_TAKEN_WITHIN = timedelta(hours=1)
"""Time from the request in which another judge takes it, if the lock was left to it."""

_STOPPED = "the judge was stopped. The next one continues"
_ERROR = "an error of the judge, which its log explains"
_LOGGED_CHARACTERS = 200


@dataclass(slots=True)
class RequestLane:
    """Judges requests while a judge holds the lock.

    Attributes:
        context: Resources of the run.
        stores: Lake, ledger and settings.
        plans: Plans of the run.
        most: Requests that are judged at the same time.
        others: Requests for other judges that the lock was left to already.
        let_go: Called with a reason when a person waits for another judge, once for each request;
            ``None`` if the holder of the lock cannot let go.
        reports: Counts of each request, by the id of its judgment.
    """

    context: RunContext
    stores: Stores
    plans: Plans
    most: int
    others: set[str]
    let_go: Callable[[str], None] | None = None
    reports: dict[str, JudgeReport] = field(default_factory=dict)
    _permits: PrioritySemaphore = field(init=False)
    _busy: set[str] = field(default_factory=set)
    _left_until_us: dict[str, float] = field(default_factory=dict)
    _lost: LockLostError | None = None

    def __post_init__(self) -> None:
        scores = ScoreStore(self.stores.ledger, hold=self.context.hold)
        self.context = self.context.for_store(scores)
        self._permits = PrioritySemaphore(self.most)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve during the block, and after it until none is left.

        Raises:
            LedgerError: The requests cannot be read.
            LockLostError: Another process may judge now; the replies that arrived are stored.
        """
        is_over = asyncio.Event()
        serving = asyncio.create_task(self._serve(is_over))
        try:
            yield
            is_over.set()
            await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self, is_over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            while self._lost is None:
                failed: LedgerError | None = None
                try:
                    found = await asyncio.to_thread(self._find)
                except LedgerError as error:  # the run may go on, and so do the requests
                    LOG.warning("requests are not read, and are read again: %s", error)
                    found, failed = [], error
                for candidate in found:
                    self._busy.add(candidate.score_id())
                    tasks.create_task(self._judge(candidate))
                if is_over.is_set() and not self._busy:
                    if failed is not None:
                        raise failed
                    break
                if is_over.is_set():
                    await asyncio.sleep(_POLL_AT_END_S)
                else:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(is_over.wait(), _POLL_S)
        if self._lost is not None:
            raise self._lost

    def _find(self) -> list[Candidate]:
        """Return the requests to begin with now, oldest first."""
        now, store = self.context.clock(), self.context.ledger.store
        left = {
            score_id for score_id, until_us in self._left_until_us.items() if to_us(now) < until_us
        }
        known = self._busy | left
        asked = [request for request in store.requests(now) if request.score_id not in known]
        if not asked or len(self._busy) >= self.most:
            return []
        days = sorted({score.session_date for score in asked})
        found = find_due(self.stores, self.plans, days, now, NIGHTLY)
        candidates = {due.score_id(): due for due in found.candidates if due.is_request}
        reasons = {score.score_id: why for score, why in (*found.discarded, *found.of_others)}
        address, ours = endpoint_of(self.stores.settings), list[Candidate]()
        for wanted in asked:
            candidate = candidates.get(wanted.score_id)
            if candidate is not None and wanted.endpoint in {None, address}:
                ours.append(candidate)
            else:
                self._leave_to_others(wanted, reasons.get(wanted.score_id), address)
        return ours[: self.most - len(self._busy)]

    def _leave_to_others(self, score: Score, why_not: str | None, address: str | None) -> None:
        """Let the requester of another judge have the lock; fail what no judge can score.

        Args:
            score: The request.
            why_not: Why this judge cannot score it; ``None`` if it can, at another address.
            address: The address of this judge.
        """
        now, store = self.context.clock(), self.context.ledger.store
        taken_until_us = score.scored_at_us + _TAKEN_WITHIN // timedelta(microseconds=1)
        is_recent = to_us(now) < taken_until_us
        is_regular = not self.plans.overrides.select_profile_or_model
        is_elsewhere = why_not is None and score.endpoint not in {None, address}
        is_other = is_elsewhere or (
            why_not is not None and (not is_regular or is_by_another_judge(why_not))
        )
        # What cannot be read now may be readable again soon.
        until_us = (taken_until_us if is_recent else inf) if is_other else to_us(now + _FIRST_DELAY)
        self._left_until_us[score.score_id] = until_us
        if is_other and (self.let_go is None or score.score_id not in self.others):
            if self.let_go is not None:
                self.others.add(score.score_id)
                self.let_go(f"a person waits for {score.judge_model}")
        elif is_other and is_recent:
            pass  # the requester may still take the lock
        elif is_regular and (is_elsewhere or why_not is not None):
            failure = Failure(_why_no_one_judges(score, why_not, address), retriable=True)
            with suppress(UnknownScoreError):
                self._note_end(store.fail(score.score_id, failure, now))

    async def _judge(self, candidate: Candidate) -> None:
        score_id, report = candidate.score_id(), self._report_of(candidate)
        ledger, clock = self.context.ledger, self.context.clock
        by = "" if candidate.unfinished is None else candidate.unfinished.score_triggered_by
        limits = replace(judge_budget_limits(self.stores.settings), max_sessions=None)
        context = self.context.with_own_budget(Budget(limits), self._permits)
        try:
            await Runner(context, report, by, Silent()).judge([candidate])
            await self._end(await ledger.run(ledger.store.get, score_id), report)
        except asyncio.CancelledError:
            ledger.run_later(ledger.store.defer, score_id, _STOPPED, clock())
            raise
        except LockLostError as lost:
            self._lost = lost  # the next judge goes on
        except UnknownScoreError:
            pass  # the session was forgotten
        except Exception:
            LOG.exception("judgment %s is not finished", score_id)
            report.count_deferred("error", _ERROR)
            # No process works on it now, and a run may hold the lock for hours.
            ledger.run_later(ledger.store.leave, score_id, clock())
            ledger.run_later(ledger.store.defer, score_id, _ERROR, clock(), clock() + _FIRST_DELAY)
        finally:
            self._busy.discard(score_id)

    def _report_of(self, candidate: Candidate) -> JudgeReport:
        """Return the report of a request, without what an earlier try has deferred."""
        report = self.reports.setdefault(candidate.score_id(), JudgeReport(candidates=1))
        report.take_deferred()
        report.stop_reason = None
        report.excluded_flags = self.stores.settings.judge_exclude_flagged
        window = candidate.window
        why = self.plans.why_not_counted(window.classification_label, candidate.plan)
        report.why_not_counted[window_key(window)] = why
        return report

    async def _end(self, score: Score, report: JudgeReport) -> None:
        """Report the outcome of a request; retry it later, or fail it if its endpoint is away."""
        ledger, now = self.context.ledger, self.context.clock()
        if score.status == "pending":
            reason = report.problem or report.summary()
            LOG.warning("judgment %s of %s waits: %s", score.score_id, score.session_key, reason)
            if score.waits < _MAX_WAITS or not report.is_endpoint_down:
                delay = min(_FIRST_DELAY * 2 ** min(score.waits, 10), _LONGEST_DELAY)
                await ledger.run(ledger.store.defer, score.score_id, reason, now, now + delay)
                return
            failure = Failure(reason, retriable=True)
            score = await ledger.run(ledger.store.fail, score.score_id, failure, now)
            report.count_ended(score)
        await asyncio.to_thread(self._note_end, score)

    def _note_end(self, score: Score) -> None:
        if score.is_open:
            return
        # The tables of the date get the score with the next build.
        with suppress(LedgerError):
            RebuildQueue(self.stores.ledger).touch({score.session_date}, self.context.clock())
        if score.status == "failed":
            _warn(score)


def _why_no_one_judges(score: Score, why_not: str | None, address: str | None) -> str:
    if why_not is not None:
        return f"left unfinished and cannot be resumed: {why_not}"
    return (
        f"requested at {from_us(score.scored_at_us):%Y-%m-%d %H:%M} UTC from the judge at "
        f"{score.endpoint}, which no process has used since: request it again, and {address} "
        "judges it"
    )


def _warn(score: Score) -> None:
    """Log why a judgment has failed, with the start of the unusable reply."""
    reply = redact(score.failed_reply or "", personal=personal_kinds()).text
    began = one_line(reply)[:_LOGGED_CHARACTERS]
    said = f", the judge wrote: {began}" if began else ""
    subject = score.score_id, score.session_key
    LOG.warning("judgment %s of %s failed: %s%s", *subject, score.error_message, said)
