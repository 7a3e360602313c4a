"""Concurrent scoring of the sessions of one judge run, and its end from outside.

SIGTERM is handled as SIGINT. Otherwise a process ends at once: leases stay, and so do temporary
files with transcripts.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from evaluation_pipelines.judging.batch.send import BatchFiles
from evaluation_pipelines.judging.context import RunContext
from evaluation_pipelines.judging.domain.budget import DayReservation, Deferred, Limit, Reservation
from evaluation_pipelines.judging.endpoint.batch_api import BatchApiError
from evaluation_pipelines.judging.endpoint.limits import Blame, Suspect
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_queries import (
    DayBudgetReachedError,
    ScoreEndedError,
    ScoringOpenError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_store import Failure
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.scoring import (
    LeftOpen,
    PromptFailure,
    PromptInput,
    SessionScoring,
    produce_prompts,
)
from evaluation_pipelines.progress import Progress
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.lock import LockLostError

NOT_OURS = (ScoringOpenError, ScoreEndedError, UnknownScoreError)
"""A person has asked for it meanwhile, or its session was forgotten or has expired."""

_MAX_REFUSALS = 20
"""Sessions in a row that do not fit into the budget after which the run stops."""


_DAY_BUDGET_POLL_S = 0.25
"""Requests may release money of the daily budget at any time, without a notification."""

_SHOW_PROGRESS_S = 60.0
"""Time between two checks of the lock: a call may take longer than a judge may be silent."""


@dataclass(slots=True)
class Runner:
    """Judges the candidates of one run and counts the results in its report.

    With ``files`` their requests are sent in batches, and another run goes on with the replies.
    """

    context: RunContext
    report: JudgeReport
    triggered_by: str
    progress: Progress
    files: BatchFiles | None = None
    blame: Blame = field(default_factory=Blame)
    _refusals: int = 0
    _lost: LockLostError | None = None
    _requests: set[str] = field(default_factory=set)
    _stop_kind: str = "run_stopped"
    _day_budget_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def judge(
        self,
        candidates: Sequence[Candidate],
        prompts: AsyncIterator[PromptInput | PromptFailure] | None = None,
    ) -> None:
        """Judge ``candidates`` in order; those not started or not affordable are deferred.

        Args:
            candidates: The sessions.
            prompts: What the judge is shown of them; ``None`` reads the lake.

        Raises:
            LockLostError: Another process may judge now; the replies that arrived are stored.
        """
        what = "judging sessions" if self.files is None else "writing requests"
        self.progress.begin(what, len(candidates))
        before = self.report.handled
        self._requests = {candidate.score_id() for candidate in candidates if candidate.is_request}
        context = self.context
        concurrency = context.settings.judge_concurrency
        # Twice the number of concurrent calls: when all replies arrive together, judgments are
        # ended and started in the ledger one by one, and the calls must not wait for that.
        workers = 2 * concurrency if self.files is None else 1
        queue: asyncio.Queue[PromptInput | None] = asyncio.Queue(concurrency)
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep_lock())
            working = [tasks.create_task(self._work(queue)) for _ in range(workers)]
            read = prompts or produce_prompts(context.lake, context.settings, candidates)
            async for prompt in read:
                if self.report.stop_reason is not None:
                    break
                if isinstance(prompt, PromptInput):
                    await queue.put(prompt)
                else:
                    await self._count_prompt_failure(prompt)
            for _ in working:
                await queue.put(None)
            await asyncio.wait(working)
            await self._settle_suspects()
            if self.files is not None:
                with self._stopped_if_not_sent():
                    await self.files.send_all()
            keeping.cancel()
        rest = len(candidates) - self.report.handled + before
        if rest:
            self.report.deferred[self._stop_kind] += rest
        if self._lost is not None:
            raise self._lost

    async def _count_prompt_failure(self, failed: PromptFailure) -> None:
        match failed.kind:
            case "unreadable":
                self.report.unreadable[failed.candidate.window.session_date] = failed.reason
                self._defer("unreadable", failed.reason)
            case "changed":
                self.report.changed += 1
                self._advance()
            case "unusable":
                await self._fail(failed)

    async def _fail(self, failed: PromptFailure) -> None:
        try:
            ended = await self.context.ledger.run(self._begin_and_fail, failed)
            self.report.count_ended(ended)
        except NOT_OURS:
            self.report.taken_by_another_run += 1
        self._advance()

    async def _work(self, queue: asyncio.Queue[PromptInput | None]) -> None:
        while (prompt_input := await queue.get()) is not None:
            if self.report.stop_reason is not None:
                continue
            if self.files is None or not prompt_input.conversation.open_requests():
                await self._score(prompt_input)
            else:
                with self._stopped_if_not_sent():
                    await self._post(prompt_input, self.files)

    async def _post(self, prompt: PromptInput, files: BatchFiles) -> None:
        """Put the open requests of a session into a batch.

        Raises:
            BatchApiError: A batch that was full could not be sent.
        """
        model = prompt.candidate.plan.setup.model
        if not await files.has_room(model):
            reason = f"no more requests to {model} until those at the provider have ended"
            self._defer(LeftOpenReason.NO_ROOM, reason)
            return
        lines, money = files.lines(prompt), files.reservation(prompt)
        file = await files.file(model, lines)
        started = await self._start(prompt, money, file.batch_id)
        if started is not None:
            reservation, _ = started
            files.add(file, lines, 0.0 if money is None else money.total_usd)
            reservation.settle(None if money is None else money.total_usd, None)
            self.context.budget_gate.close(reservation)
            self._advance()

    @contextmanager
    def _stopped_if_not_sent(self) -> Iterator[None]:
        try:
            yield
        except BatchApiError as error:
            self.stop(LeftOpenReason.ENDPOINT_DOWN, error.reason)

    async def _score(self, prompt_input: PromptInput) -> None:
        model = prompt_input.candidate.plan.setup.model
        calls = prompt_input.open_calls(self.context.settings.judge_max_output_tokens)
        day_reservation = self.context.day_reservation(model, calls)
        started = await self._start(prompt_input, day_reservation)
        if started is None:
            return
        reservation, score = started
        try:
            now_usd = 0.0 if day_reservation is None else day_reservation.now_usd
            open_requests = prompt_input.conversation.open_requests()
            scoring = SessionScoring(
                self.context,
                score,
                prompt_input.conversation,
                reservation,
                self.report,
                self.blame,
                booked_usd=now_usd,
                planned_turns=frozenset(request.turn for request in open_requests),
            )
            await self._run_scoring(scoring)
        except NOT_OURS:
            self.report.taken_by_another_run += 1
        except LockLostError as lost:
            self._lose(lost)
            self.report.count_deferred(LeftOpenReason.LOCK_LOST, str(lost))
        finally:
            self.context.budget_gate.close(reservation)
        self._advance()

    async def _start(
        self,
        prompt_input: PromptInput,
        day_reservation: DayReservation | None,
        batch_id: str | None = None,
    ) -> tuple[Reservation, Score] | None:
        """Reserve the most that a session can cost and begin its judgment.

        If judgments in progress hold the money of the day, wait for it.

        Returns:
            The reservation and the judgment; ``None`` if the session is not scored now.
        """
        asked = prompt_input, day_reservation, batch_id
        started = await self._try_to_start(*asked)
        if _is_held(started):
            async with self._day_budget_lock:  # one session polls, the others wait for the lock
                while _is_held(started):
                    await asyncio.sleep(_DAY_BUDGET_POLL_S)
                    started = await self._try_to_start(*asked)
        if isinstance(started, DayBudgetReachedError):
            self._count_refusal(started.refused)
            return None
        return started

    async def _try_to_start(
        self,
        prompt_input: PromptInput,
        day_reservation: DayReservation | None,
        batch_id: str | None,
    ) -> tuple[Reservation, Score] | DayBudgetReachedError | None:
        if self.report.stop_reason is not None:
            return None
        worst_case_usd = None if day_reservation is None else day_reservation.total_usd
        reservation = await self.context.budget_gate.admit(worst_case_usd)
        if isinstance(reservation, Deferred):
            self._count_refusal(reservation)
            return None
        started = None
        try:
            if self.report.stop_reason is None:
                subject = prompt_input, day_reservation, batch_id
                started = reservation, await self._create_or_claim(*subject)
                self._refusals = 0
        except DayBudgetReachedError as error:
            self.context.budget_gate.note_short()
            return error
        except NOT_OURS:
            self.report.taken_by_another_run += 1
            self._advance()
        except LockLostError as lost:
            self._lose(lost)
        finally:
            if started is None:
                self.context.budget_gate.close(reservation)
        return started

    async def _run_scoring(self, scoring: SessionScoring) -> None:
        try:
            ended = await scoring.run()
        except asyncio.CancelledError:
            # A canceled run still books its cost.
            ledger, now = self.context.ledger, self.context.clock()
            leave, score_id = ledger.store.leave, scoring.score.score_id
            ledger.run_later(leave, score_id, now, scoring.take_rest())
            raise
        score_id = scoring.score.score_id
        if isinstance(ended, LeftOpen):
            is_down = ended.kind is LeftOpenReason.ENDPOINT_DOWN
            if is_down and (ended.was_sent or scoring.conversation.replies):
                self.report.unanswered[score_id] = ended.reason
            if ended.was_sent:
                await self._leave_to_another_run(
                    Suspect(score_id, "silent", ended.reason, retriable=True)
                )
            else:
                self.report.count_deferred(ended.kind, ended.reason)
            if ended.kind is LeftOpenReason.ENDPOINT_DOWN:
                self.stop(ended.kind, ended.reason)
        elif isinstance(ended, Suspect):
            self.report.unanswered[score_id] = ended.reason
            self.blame.add(ended)
        else:
            self.report.count_ended(ended)
        await self.fail_sessions(self.blame.take_guilty())
        if (why := self.blame.stop_reason()) is not None:
            is_suspect = isinstance(ended, Suspect)
            kind = LeftOpenReason.ENDPOINT_DOWN if is_suspect else LeftOpenReason.USELESS_REPLIES
            self.stop(kind, why)

    async def fail_sessions(self, guilty: Sequence[Suspect]) -> None:
        """Mark the judgments of sessions as failed that caused the failure of their calls.

        One that a person asked for meanwhile goes on: its call is in flight.
        """
        ledger = self.context.ledger
        fail = partial(ledger.store.fail, is_left=True)
        for suspect in guilty:
            failure = Failure(suspect.reason, suspect.retriable)
            try:
                now = self.context.clock()
                ended = await ledger.run(fail, suspect.score_id, failure, now)
                self.report.count_ended(ended)
            except NOT_OURS:
                self.report.taken_by_another_run += 1

    async def _leave_to_another_run(self, left: Suspect) -> None:
        """Leave a session due whose endpoint does not answer; a person who waits is told so."""
        if left.score_id in self._requests:
            self.report.endpoint_failures += 1
            await self.fail_sessions([left])
        else:
            self.report.count_deferred(LeftOpenReason.ENDPOINT_DOWN, left.reason)

    async def _settle_suspects(self) -> None:
        is_down = self._stop_kind == LeftOpenReason.ENDPOINT_DOWN
        failed, due = self.blame.settle(is_endpoint_down=is_down)
        await self.fail_sessions([*self.blame.take_guilty(), *failed])
        for suspect in due:
            await self._leave_to_another_run(suspect)

    async def _create_or_claim(
        self, prompt: PromptInput, money: DayReservation | None, batch_id: str | None
    ) -> Score:
        """Create the judgment in the ledger, or resume the unfinished one."""
        unfinished = prompt.candidate.unfinished
        self.report.continued += unfinished is not None and bool(unfinished.turn_log)
        subject = prompt.candidate, prompt.score_id, prompt.facts
        return await self.context.ledger.run(self._begin, *subject, money, batch_id)

    def _begin(
        self,
        candidate: Candidate,
        score_id: str,
        facts: Mapping[str, Any],
        money: DayReservation | None = None,
        batch_id: str | None = None,
    ) -> Score:
        """Begin a judgment. Raises as ``ScoreStore.create`` and ``ScoreStore.claim``."""
        store, now = self.context.ledger.store, self.context.clock()
        if candidate.unfinished is not None:
            return store.claim(score_id, now, facts, money, batch_id)
        begun = {"status": "in_progress", "batch_id": batch_id, **facts}
        new = replace(candidate.new_score(score_id, self.triggered_by, now), **begun)
        return store.create(new, now, money, candidate.known_scorings)

    def _begin_and_fail(self, failed: PromptFailure) -> Score:
        """Begin the judgment of a session without a prompt, and mark it as failed."""
        score_id = failed.candidate.score_id()
        self._begin(failed.candidate, score_id, {})
        # Another version of this program may be able to resume a judgment that it started.
        failure = Failure(failed.reason, retriable=failed.candidate.unfinished is not None)
        return self.context.ledger.store.fail(score_id, failure, self.context.clock())

    def _count_refusal(self, refused: Deferred) -> None:
        """Count a session that does not fit into the budget; stop after several in a row."""
        self._refusals += 1
        self._defer(refused.limit, refused.reason)
        is_final = refused.limit in {Limit.MAX_SESSIONS, Limit.UNKNOWN_PRICE}
        if is_final or self._refusals >= _MAX_REFUSALS:
            # The reason of the first refusal: later ones differ only in their amounts.
            self.stop(refused.limit, self.report.explanations[refused.limit])

    def _defer(self, kind: str, reason: str) -> None:
        self.report.count_deferred(kind, reason)
        self._advance()

    def stop(self, kind: str, reason: str) -> None:
        """Start no further session; those in progress continue."""
        if self.report.stop_reason is None:
            self._stop_kind, self.report.stop_reason = kind, reason

    async def _keep_lock(self) -> None:
        """Show progress while calls take long, and stop when the lock is lost."""
        while True:
            await asyncio.sleep(_SHOW_PROGRESS_S)
            try:
                await self.context.ledger.run(self.context.hold.check)
            except LockLostError as lost:
                self._lose(lost)

    def _lose(self, lost: LockLostError) -> None:
        """Start nothing more; calls in flight end, and their replies are stored."""
        self._lost = lost
        self.stop(LeftOpenReason.LOCK_LOST, str(lost))

    def _advance(self) -> None:
        self.progress.tell(f"${self.report.cost_usd:.4f} spent")
        self.progress.advance(1)


def _is_held(started: object) -> bool:
    return isinstance(started, DayBudgetReachedError) and started.is_held


_WAKE_S = 0.5


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM raise ``KeyboardInterrupt``; use as ``with``, or as a decorator.

    A handler of the caller, such as that of Dagster, stays. Signals reach the main thread only.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(*_: object) -> None:
    # A shell starts background commands of a script with SIGINT ignored.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


async def _wake_often() -> None:
    """End the loop's waits for events, so that Python runs the handlers of signals.

    A signal that arrives just before such a wait does not end it, and the next event may be minutes
    away: that of a reply.
    """
    while True:  # noqa: ASYNC110 - there is nothing to wait for
        await asyncio.sleep(_WAKE_S)


class Interruption:
    """Ends runs of other threads, as SIGINT ends one of the main thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._running: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = set()

    def set(self) -> None:
        """Cancel all guarded coroutines, and those that begin later."""
        with self._lock:
            self._is_set = True
            for loop, task in self._running:
                loop.call_soon_threadsafe(task.cancel)

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await ``work``; ``set`` cancels it."""
        task = asyncio.ensure_future(work)
        running = asyncio.get_running_loop(), task
        with self._lock:
            self._running.add(running)
            if self._is_set:
                task.cancel()
        waking = asyncio.ensure_future(_wake_often())
        try:
            await task
        finally:
            waking.cancel()
            with self._lock:
                self._running.discard(running)
