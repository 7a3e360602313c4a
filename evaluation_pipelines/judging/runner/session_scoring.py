"""Scoring of one session, from its first open request to its end, however its replies come."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.judging.domain.blame import Blame, Suspect, Symptom
from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, MeteredCall, Reservation
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    FailedConversation,
    JudgeRequest,
    Judgment,
    logged_turn,
    why_useless,
)
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitOpenError
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.metered import ask_metered
from evaluation_pipelines.judging.ledger.errors import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_records import Failure, Phase, ReceivedReply
from evaluation_pipelines.judging.runner.run_context import RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.times import to_us

_FLAGS = ("inconsistent_total", "incomplete_criteria", "short_analysis", "numbers_from_reminder")


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """An unfinished scoring that another run continues from its replies.

    ``was_sent`` says that its own request found that the endpoint does not answer.
    """

    kind: LeftOpenReason
    reason: str
    was_sent: bool = False


class _NoMoneyError(Exception):
    """A call that was not planned does not fit into the budget."""


@dataclass(slots=True)
class SessionScoring:
    """Scoring of one session: sends the open requests and stores each reply before it is used.

    Attributes:
        context: Resources of the run.
        score: The scoring.
        conversation: Conversation with the replies received so far.
        reservation: Money reserved in the budget of the run.
        report: Report that counts the replies.
        blame: Decides whether sessions or the endpoint caused failed calls.
        booked_usd: Amount that the ledger has for the calls of this run.
        planned_turns: Turns for which money is reserved from the beginning.
    """

    context: RunContext
    score: Score
    conversation: Conversation
    reservation: Reservation
    report: JudgeReport
    blame: Blame
    booked_usd: float
    planned_turns: frozenset[str]
    _has_estimates: bool = False

    async def run(self) -> Score | LeftOpen | Suspect:
        """Judge the session.

        Returns:
            The completed or failed scoring, the reason why it is left unfinished, or the failed
            call, if it is not yet known whether the session caused it. The scoring is left
            unfinished then, too.

        Raises:
            LockLostError: Another process may judge now; the replies that arrived are stored.
        """
        while (outcome := self.conversation.outcome()) is None:
            if (why := self.context.lets_go) is not None:
                await self.leave()
                return LeftOpen(LeftOpenReason.YIELDED, why)
            requests = self.conversation.open_requests()
            calls = [self._ask(each) for each in requests]
            # All calls are awaited: a reply that was paid for is kept even if another call fails.
            answers = await asyncio.gather(*calls, return_exceptions=True)
            problems = [
                (request, answer)
                for request, answer in zip(requests, answers, strict=True)
                if answer is not None
            ]
            # Problems of the endpoint or the budget come first: they must not fail the session.
            for request, problem in sorted(problems, key=lambda each: _is_of_session(each[1])):
                ended = await self.refuse(request.turn, problem)
                if ended is not None:
                    return ended
        return await self.end(outcome)

    def take_unused(self) -> float:
        """Return what the ledger has and the scoring does not need, calls in flight included."""
        unused = self.booked_usd - self.reservation.spent_usd - self.reservation.reserved_usd
        self.booked_usd -= unused
        return unused

    def take_rest(self) -> float:
        """Return what the ledger has and the calls of this run did not cost."""
        return self.booked_usd - self.reservation.spent_usd

    def _is_last_turn(self) -> bool:
        return any(each.turn == MISSING_TOOLS_TURN for each in self.conversation.open_requests())

    async def _ask(self, request: JudgeRequest) -> None:
        model, limit = self.score.judge_model, self.context.settings.judge_max_output_tokens
        call = PlannedCall(estimated_message_tokens(request.messages), limit)
        most = self.context.worst_case_usd(model, call)
        await self._reserve(request, most)
        metered = MeteredCall(self.reservation, most)
        # The permit is held until the reply is stored: a killed process loses no more replies than
        # there are permits.
        turns_left = 1 if request.turn == MISSING_TOOLS_TURN else 2
        async with self.context.call_semaphore.acquire(turns_left):
            answer = await self._answer(request, metered)
            await self.receive(request.turn, answer)

    async def _answer(self, request: JudgeRequest, metered: MeteredCall) -> JudgeAnswer:
        """Send a request and book its cost."""
        client = await self.context.client(self.score.judge_model)

        async def reserve_again() -> bool:
            return await self._reserve_in_ledger(metered.worst_case_usd) is None

        try:
            return await ask_metered(client, request.messages, metered, reserve_again)
        finally:
            self.context.budget_gate.notify_released()

    async def _reserve(self, request: JudgeRequest, most: float | None) -> None:
        """Reserve money for a call that was not open when the scoring started."""
        if request.turn in self.planned_turns:
            return
        if most is None:
            await self.context.ledger.run(self.context.hold.check)
            return
        gate = self.context.budget_gate
        refused = await gate.extend(self.reservation, most, self._reserve_in_ledger)
        if refused is not None:
            raise _NoMoneyError(refused.reason)

    async def _reserve_in_ledger(self, most: float | None) -> Deferred | None:
        """Reserve the highest cost of a call in the daily budget.

        Returns:
            The limit that was reached; ``None`` if the cost fits or is unknown.
        """
        if most is None:
            return None
        context = self.context
        day_usd = context.settings.judge_max_cost_per_day_usd
        reservation = DayReservation(most, max_day_usd=day_usd)
        method = context.ledger.store.reserve_more
        try:
            await context.ledger.run(method, self.score.score_id, reservation, context.clock())
        except DayBudgetReachedError as error:
            return error.refused
        self.booked_usd += most
        return None

    async def receive(
        self,
        turn: str,
        answer: JudgeAnswer,
        released_usd: float = 0.0,
        *,
        is_current: bool = True,
    ) -> None:
        """Store a reply, however it came, in the ledger before the conversation continues from it.

        Args:
            turn: What it answers.
            answer: The reply, whose cost is booked on the reservation.
            released_usd: What was reserved for it in a batch.
            is_current: Whether the conversation is the one in which it was asked for.
        """
        logged = logged_turn(
            *(turn, answer.reply, answer.usage, to_us(self.context.clock())),
            cost_usd=answer.cost_usd,
            latency_ms=answer.latency_ms,
            attempts=answer.attempts,
            is_usage_estimated=answer.is_usage_estimated,
        )
        self._has_estimates |= answer.is_usage_estimated
        self.blame.note_reply(why_useless(answer.reply))
        if is_current:
            self.conversation = self.conversation.with_reply(turn, answer.reply)
        is_last = is_current and self._is_last_turn()
        next_phase: Phase | None = "identifying_missing_tools" if is_last else None
        unused_usd = self.take_unused()
        reply = ReceivedReply(self.score.score_id, logged, unused_usd, next_phase, released_usd)
        ledger = self.context.ledger
        self.context.budget_gate.note_reply(self.reservation)
        with suppress(ValueError):  # if the lock was lost, another judge may have its own reply
            await ledger.run(ledger.store.log_turn, reply)
        self.report.count_reply(logged)

    async def refuse(self, turn: str, problem: BaseException) -> LeftOpen | Suspect | None:
        """End the scoring after a failed call; return ``None`` if it can continue."""
        is_last_of_request = self.score.is_request and turn == MISSING_TOOLS_TURN
        match problem:
            case CircuitOpenError(was_sent=True) | JudgeCallError(fault=Fault.UNREACHABLE) if (
                is_last_of_request
            ):  # a person waits for the score, which is known
                self.conversation = self.conversation.with_missing_tools_failed(str(problem))
                return None
            case CircuitOpenError():
                await self.leave()
                return LeftOpen(LeftOpenReason.ENDPOINT_DOWN, str(problem), problem.was_sent)
            case BudgetReachedError() | _NoMoneyError():
                await self.leave()
                return LeftOpen(LeftOpenReason.NO_MONEY, str(problem))
            case JudgeCallError(fault=Fault.UNREACHABLE):
                await self.leave()
                return LeftOpen(LeftOpenReason.ENDPOINT_DOWN, problem.reason, was_sent=True)
            case JudgeCallError() if turn == MISSING_TOOLS_TURN:
                self.conversation = self.conversation.with_missing_tools_failed(problem.reason)
                return None
            case JudgeCallError():
                await self.leave()
                symptom = SYMPTOMS.get(problem.fault, "other")
                reason = f"{turn}: {problem.reason}"
                return Suspect(self.score.score_id, symptom, reason, problem.retriable)
        raise problem

    async def end(self, outcome: Judgment | FailedConversation) -> Score:
        """Complete the scoring, or mark it as failed."""
        ledger, score_id, now = self.context.ledger, self.score.score_id, self.context.clock()
        if isinstance(outcome, FailedConversation):
            failure = Failure(outcome.reason, outcome.retriable)
            return await ledger.run(ledger.store.fail, score_id, failure, now, self.take_rest())
        estimated = self._has_estimates or any(
            each.is_usage_estimated for each in self.score.turn_log
        )
        result = score_result(outcome, estimated_usage=estimated)
        return await ledger.run(ledger.store.complete, score_id, result, now, self.take_rest())

    async def leave(self) -> None:
        """Leave the scoring to another run, and book what its calls have cost."""
        ledger, now = self.context.ledger, self.context.clock()
        await ledger.run(ledger.store.leave, self.score.score_id, now, self.take_rest())


SYMPTOMS: Mapping[Fault, Symptom] = {
    Fault.MISCONFIGURED: "faulty",
    Fault.REJECTED: "rejected",
    Fault.CONNECTION: "silent",
    Fault.TIMEOUT: "silent",
    Fault.SERVER_ERROR: "faulty",
    Fault.RATE_LIMITED: "faulty",
    Fault.UNREADABLE: "faulty",
}
"""What the endpoint did, by fault; all other faults are about the session."""


def _is_of_session(problem: BaseException) -> bool:
    """Return whether the session, not the endpoint or the budget, caused a problem."""
    return isinstance(problem, JudgeCallError)


def score_result(judgment: Judgment, *, estimated_usage: bool) -> dict[str, Any]:
    """Return a judgment as fields of its score."""
    verdict = judgment.verdict
    return {
        "total_score": verdict.total,
        "criteria_scores": verdict.criteria,
        "failure_tags": None if verdict.failure_tags is None else list(verdict.failure_tags),
        "sample_totals": list(judgment.sample_totals),
        "sample_errors": list(judgment.sample_errors),
        "score_spread": judgment.spread,
        "score_analysis": verdict.analysis,
        "missing_tools_analysis": judgment.missing_tools,
        "missing_tools_error": judgment.missing_tools_error,
        **{name: getattr(verdict, name) for name in _FLAGS},
        "estimated_usage": estimated_usage,
    }
