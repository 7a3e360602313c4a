"""The work of one judge run: sessions beside each other, as far as endpoint and money go."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, Limit, Reservation
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.errors import (
    DayBudgetReachedError,
    ScoreEndedError,
    ScoreLeaseLostError,
    ScoringOpenError,
)
from evaluation_pipelines.judging.ledger.score_records import Failure, PromptFacts
from evaluation_pipelines.judging.runner.prompt_input import PromptInput
from evaluation_pipelines.judging.runner.prompt_producer import PromptFailure, produce_prompts
from evaluation_pipelines.judging.runner.run_context import RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.judging.runner.session_scoring import LeftOpen, SessionScoring
from evaluation_pipelines.progress import Progress

_MOST_REFUSALS = 20
"""Sessions in a row that do not fit into the money before the rest is not looked at."""

_LOOK_AGAIN_S = 0.25
"""Money of the day that others hold may become free at any time, and nobody tells."""

_ELSEWHERE = (ScoringOpenError, ScoreLeaseLostError, ScoreEndedError)


@dataclass(slots=True)
class Runner:
    """Judges the candidates of one run with what its desk holds, and counts in its report."""

    desk: RunContext
    report: JudgeReport
    order: RunRequest
    progress: Progress
    _refusals: int = 0
    _why_stopped: str = "run_stopped"
    _line: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def judge(self, candidates: Sequence[Candidate]) -> None:
        """Judge them all, in their order; what is not reached or does not fit is deferred."""
        self.progress.begin("judging sessions", len(candidates))
        desk = self.desk
        concurrency = desk.settings.judge_concurrency
        # Twice as many as can be asked at once: when all replies come together, their ends and
        # the beginnings of others are noted one by one, and slots must not wait for that.
        workers = 2 * concurrency
        queue: asyncio.Queue[PromptInput | None] = asyncio.Queue(concurrency)
        async with desk, asyncio.TaskGroup() as tasks:
            sign_of_life = tasks.create_task(self._renew())
            working = [tasks.create_task(self._work(queue)) for _ in range(workers)]
            async for found in produce_prompts(desk, candidates):
                if self.report.stopped is not None:
                    break
                if isinstance(found, PromptInput):
                    await queue.put(found)
                else:
                    await self._pass_over(found)
            for _ in working:
                await queue.put(None)
            await asyncio.wait(working)
            sign_of_life.cancel()
        rest = len(candidates) - self.report.ended
        if rest:
            self.report.deferred[self._why_stopped] += rest

    async def _pass_over(self, found: PromptFailure) -> None:
        """Count a session that cannot be shown, or is not to be now."""
        match found.why:
            case "unreadable":
                self.report.unreadable[found.candidate.window.session_date] = found.reason
                self._defer("unreadable", found.reason)
            case "changed":
                self.report.changed += 1
                self._tell()
            case "odd":
                # What was begun by another version of this program may go on some day.
                is_retriable = found.candidate.unfinished is not None
                await self._give_up(found.candidate, Failure(found.reason, is_retriable))

    async def _give_up(self, candidate: Candidate, failure: Failure) -> None:
        desk, unfinished = self.desk, candidate.unfinished
        score_id = str(uuid4()) if unfinished is None else unfinished.score_id
        try:
            await self._take(candidate, score_id, None, None)
            ended = await desk.ledger.do(
                desk.ledger.store.fail, score_id, desk.lease.owner, failure, desk.clock()
            )
            self.report.note_end(ended)
        except _ELSEWHERE:
            self.report.elsewhere += 1
        self._tell()

    async def _work(self, queue: asyncio.Queue[PromptInput | None]) -> None:
        while (material := await queue.get()) is not None:
            if self.report.stopped is None:
                await self._score(material)

    async def _score(self, material: PromptInput) -> None:
        model = material.candidate.plan.judging.model
        calls = material.remaining_calls(self.desk.settings.judge_max_output_tokens)
        stake = self.desk.stake(model, calls)
        begun = await self._begin(material, stake)
        if begun is None:
            return
        reservation, score = begun
        try:
            asked = 0.0 if stake is None else stake.asked_usd
            scoring = SessionScoring(
                self.desk,
                score,
                material.conversation,
                reservation,
                self.report,
                before_usd=(score.booked_cost_usd or 0.0) - asked,
                planned=frozenset(each.turn for each in material.conversation.open_requests()),
                later_usd=None if stake is None else stake.later_usd,
            )
            await self._judged(scoring)
        except _ELSEWHERE:
            self.report.elsewhere += 1
        finally:
            self._give_back(reservation)
        self._tell()

    async def _begin(
        self, material: PromptInput, stake: DayReservation | None
    ) -> tuple[Reservation, Score] | None:
        """Set aside the most that a session can cost, and take it; None when that is not to be.

        Money of the day that scorings under way hold, of whatever run, is waited for.
        """
        begun = await self._try_to_begin(material, stake)
        if _is_held(begun):
            async with self._line:  # one asks again and again, all others stand behind it
                while _is_held(begun):
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    begun = await self._try_to_begin(material, stake)
        if isinstance(begun, DayBudgetReachedError):
            self._refuse(begun.refused)
            return None
        return begun

    async def _try_to_begin(
        self, material: PromptInput, stake: DayReservation | None
    ) -> tuple[Reservation, Score] | DayBudgetReachedError | None:
        if self.report.stopped is not None:
            return None
        reservation = await self.desk.till.admit(None if stake is None else stake.all_usd)
        if isinstance(reservation, Deferred):
            self._refuse(reservation)
            return None
        begun = None
        try:
            if self.report.stopped is None:
                taken = self._take(material.candidate, material.score_id, material.shown, stake)
                begun = reservation, await taken
                self._refusals = 0
        except DayBudgetReachedError as error:
            return error
        except _ELSEWHERE:
            self.report.elsewhere += 1
            self._tell()
        finally:
            if begun is None:
                self._give_back(reservation)
        return begun

    def _give_back(self, reservation: Reservation) -> None:
        reservation.close()
        self.desk.till.note_freed()

    async def _judged(self, scoring: SessionScoring) -> None:
        try:
            ended = await scoring.run()
        except asyncio.CancelledError:
            # A run that is stopped says what it has booked; its leases it gives back at its end.
            desk, score_id = self.desk, scoring.score.score_id
            now, booked = desk.clock(), scoring.booked_usd
            desk.ledger.later(desk.ledger.store.leave, score_id, desk.lease.owner, now, booked)
            raise
        if isinstance(ended, LeftOpen):
            self.report.note_deferred(ended.why, ended.reason)
            if ended.why is LeftOpenReason.ENDPOINT_DOWN:
                self._stop(ended.why, ended.reason)
        else:
            self.report.note_end(ended)

    async def _take(
        self,
        candidate: Candidate,
        score_id: str,
        shown: PromptFacts | None,
        stake: DayReservation | None,
    ) -> Score:
        """Begin the scoring in the ledger, or take it over."""
        ledger, lease, now = self.desk.ledger, self.desk.lease, self.desk.clock()
        unfinished = candidate.unfinished
        if unfinished is not None:
            self.report.continued += bool(unfinished.turn_log)
            return await ledger.do(ledger.store.claim, score_id, lease, now, shown, stake)
        new = candidate.new_score(score_id, self.order.triggered_by)
        return await ledger.do(ledger.store.create, new, now, lease, shown, stake)

    def _refuse(self, refused: Deferred) -> None:
        self._defer(refused.limit, refused.reason)
        self._refusals += 1
        is_final = refused.limit in {Limit.MAX_SESSIONS, Limit.UNKNOWN_PRICE}
        if is_final or self._refusals >= _MOST_REFUSALS:
            # As it was told of the first: those after it only name other sums.
            self._stop(refused.limit, self.report.explained[refused.limit])

    def _defer(self, kind: str, reason: str) -> None:
        self.report.note_deferred(kind, reason)
        self._tell()

    def _stop(self, why: str, reason: str) -> None:
        """Begin nothing more; what is under way goes on."""
        if self.report.stopped is None:
            self._why_stopped, self.report.stopped = why, reason

    async def _renew(self) -> None:
        """Say that we live, often enough that nobody takes our scorings over."""
        desk = self.desk
        while True:
            await asyncio.sleep(desk.lease.seconds / 3)
            await desk.ledger.do(desk.ledger.store.renew, desk.lease, desk.clock())

    def _tell(self) -> None:
        self.progress.advance(1)
        self.progress.tell(f"${self.report.cost_usd:.4f} spent")


def _is_held(begun: object) -> bool:
    return isinstance(begun, DayBudgetReachedError) and begun.is_held
