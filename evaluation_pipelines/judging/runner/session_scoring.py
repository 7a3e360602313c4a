"""One session with the judge, from its first open request to the end."""

import asyncio
from dataclasses import dataclass

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, MeteredCall, Reservation
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    FailedConversation,
    Judgement,
    JudgeRequest,
)
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.domain.score import LoggedTurn, Score
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitOpenError
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, JudgeCallError
from evaluation_pipelines.judging.ledger.errors import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_records import Failure, ReceivedReply
from evaluation_pipelines.judging.runner.prompt_input import completion_of
from evaluation_pipelines.judging.runner.run_context import RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.times import to_us


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A session that is left half done: another run goes on from its replies."""

    why: LeftOpenReason
    reason: str


class _NoMoneyError(Exception):
    """A call that was not planned does not fit into the budget."""


@dataclass(slots=True)
class SessionScoring:
    """Asks what is open, keeps each reply before it counts, and brings the scoring to its end.

    Attributes:
        before_usd: What earlier runs have booked for it.
        planned: Turns for which money is reserved already, besides the last one.
        later_usd: The most that the last call was planned to cost, where it was not open from the
            beginning; None for an unknown price.
    """

    desk: RunContext
    score: Score
    conversation: Conversation
    reservation: Reservation
    report: JudgeReport
    before_usd: float
    planned: frozenset[str]
    later_usd: float | None

    async def run(self) -> Score | LeftOpen:
        """Judge the session.

        Returns:
            The scoring as it ended, completed or failed; or why it is left half done.

        Raises:
            ScoreLeaseLostError: somebody else has taken it over.
        """
        while (outcome := self.conversation.outcome()) is None:
            requests = self.conversation.open_requests()
            asked = [self._ask(each) for each in requests]
            # All of them are waited for: what has been paid is kept, whatever became of the others.
            answers = await asyncio.gather(*asked, return_exceptions=True)
            problems = [
                (request, answer)
                for request, answer in zip(requests, answers, strict=True)
                if answer is not None
            ]
            # What says nothing about the session comes first: it shall not be to blame.
            for request, problem in sorted(problems, key=lambda each: _is_about(each[1])):
                ended = await self._cope(request, problem)
                if ended is not None:
                    return ended
        return await self._end(outcome)

    @property
    def booked_usd(self) -> float | None:
        """What counts against the budget by now; None when the price is unknown."""
        if self.later_usd is None:
            return None
        return self.before_usd + self.reservation.spent_usd

    def _is_last_turn(self) -> bool:
        return any(each.turn == MISSING_TOOLS_TURN for each in self.conversation.open_requests())

    async def _ask(self, request: JudgeRequest) -> None:
        model, limit = self.score.judge_model, self.desk.settings.judge_max_output_tokens
        call = PlannedCall(estimated_message_tokens(request.messages), limit)
        most = self.desk.most_usd(model, call)
        await self._reserve(request, most)
        metered = MeteredCall(self.reservation, most)
        # The slot is held until the reply is kept: a kill costs no more replies than there are
        # slots.
        turns_left = 1 if request.turn == MISSING_TOOLS_TURN else 2
        async with self.desk.slots.taken(turns_left):
            answer = await self._answer(request, metered)
            await self._keep(request, answer)

    async def _answer(self, request: JudgeRequest, metered: MeteredCall) -> JudgeAnswer:
        """Ask, and book what that cost."""
        client = await self.desk.client(self.score.judge_model)

        async def may_pay_again() -> bool:
            if not metered.may_pay_again():
                return False
            if await self._set_aside(metered.most_usd) is None:
                return True
            metered.give_up()
            return False

        try:
            answer = await client.ask(request.messages, may_pay_again)
        except (JudgeCallError, CircuitOpenError, BudgetReachedError) as error:
            metered.settle(error.cost_usd)
            raise
        except BaseException:  # cancelled, or an error of ours: nobody knows what it cost
            metered.settle(None)
            raise
        finally:
            self.desk.till.note_freed()
        metered.settle(answer.cost_usd)
        return answer

    async def _reserve(self, request: JudgeRequest, most: float | None) -> None:
        """Reserve what was not planned: reminders, and what they add to the last call."""
        if most is None or request.turn in self.planned:
            return
        is_last = request.turn == MISSING_TOOLS_TURN
        unplanned = max(most - (self.later_usd or 0.0), 0.0) if is_last else most
        if not unplanned:
            return
        refused = self.reservation.extend(unplanned)
        if refused is None:
            refused = await self._set_aside(unplanned)
            if refused is not None:
                self.reservation.give_back(unplanned)
        if refused is not None:
            raise _NoMoneyError(refused.reason)

    async def _set_aside(self, most: float | None) -> Deferred | None:
        """Have it in the ledger that a call may cost so much; why not, where it does not fit."""
        if most is None:
            return None
        desk = self.desk
        stake = DayReservation(most, most_of_day_usd=desk.settings.judge_max_cost_per_day_usd)
        step, owner = desk.ledger.store.set_aside_more, desk.lease.owner
        try:
            await desk.ledger.soon(step, self.score.score_id, owner, stake, desk.clock())
        except DayBudgetReachedError as error:
            return error.refused
        return None

    async def _keep(self, request: JudgeRequest, answer: JudgeAnswer) -> None:
        """Note a reply in the ledger; only then the conversation goes on from it."""
        usage = answer.usage
        turn = LoggedTurn(
            turn=request.turn,
            text=answer.reply.text,
            finish_reason=answer.reply.finish_reason,
            input_tokens=None if usage is None else usage.input_tokens,
            cached_tokens=None if usage is None else usage.cached_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cost_usd=answer.cost_usd,
            latency_ms=answer.latency_ms,
            attempts=answer.attempts,
            at_us=to_us(self.desk.clock()),
        )
        self.conversation = self.conversation.with_reply(request.turn, answer.reply)
        await self.desk.ledger.keep(self._arrived(turn))
        tokens = (
            None
            if usage is None
            else (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
        )
        self.report.note_reply(answer.cost_usd, tokens)

    def _arrived(self, turn: LoggedTurn) -> ReceivedReply:
        """A reply with all that counts against the budget now: calls under way, calls to come."""
        is_last, settled, held = (
            self._is_last_turn(),
            self.booked_usd,
            self.reservation.reserved_usd,
        )
        later = 0.0 if is_last else min(self.later_usd or 0.0, held)
        return ReceivedReply(
            self.score.score_id,
            self.desk.lease.owner,
            turn,
            booked_usd=None if settled is None else settled + held - later,
            reserved_usd=None if settled is None else later,
            next_phase="identifying_missing_tools" if is_last else None,
        )

    async def _cope(self, request: JudgeRequest, problem: BaseException) -> Score | LeftOpen | None:
        """What a call without a reply means for the scoring; None: it goes on without it."""
        match problem:
            case CircuitOpenError():
                return await self._leave(LeftOpenReason.ENDPOINT_DOWN, str(problem))
            case BudgetReachedError() | _NoMoneyError():
                return await self._leave(LeftOpenReason.NO_MONEY, str(problem))
            case JudgeCallError() if request.turn == MISSING_TOOLS_TURN:
                self.conversation = self.conversation.with_missing_tools_failed(problem.reason)
                return None
            case JudgeCallError():
                return await self._fail(
                    Failure(f"{request.turn}: {problem.reason}", problem.retriable)
                )
        raise problem

    async def _end(self, outcome: Judgement | FailedConversation) -> Score:
        if isinstance(outcome, FailedConversation):
            return await self._fail(Failure(outcome.reason, outcome.retriable))
        ledger = self.desk.ledger
        return await ledger.do(
            ledger.store.complete,
            self.score.score_id,
            self.desk.lease.owner,
            completion_of(outcome),
            self.desk.clock(),
            self.booked_usd,
        )

    async def _fail(self, failure: Failure) -> Score:
        ledger, owner = self.desk.ledger, self.desk.lease.owner
        now, booked = self.desk.clock(), self.booked_usd
        return await ledger.do(ledger.store.fail, self.score.score_id, owner, failure, now, booked)

    async def _leave(self, why: LeftOpenReason, reason: str) -> LeftOpen:
        ledger, owner = self.desk.ledger, self.desk.lease.owner
        now, booked = self.desk.clock(), self.booked_usd
        await ledger.do(ledger.store.leave, self.score.score_id, owner, now, booked)
        return LeftOpen(why, reason)


def _is_about(problem: BaseException) -> bool:
    """Whether a problem is one of the session's own."""
    return isinstance(problem, JudgeCallError)
