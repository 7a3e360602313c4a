"""Scoring of one session: its prompt, then each reply, however it comes, to the end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Literal

import polars as pl

from evaluation_pipelines.judging.context import RunContext
from evaluation_pipelines.judging.domain.budget import (
    DayReservation,
    Deferred,
    MeteredCall,
    PlannedCall,
    Reservation,
)
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    FailedConversation,
    JudgeRequest,
    Judgment,
    logged_turn,
    why_useless,
)
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.domain.prompt.fence import SEAL
from evaluation_pipelines.judging.domain.prompt.messages import Reply, estimated_message_tokens
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import render_prompts
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, ask_metered
from evaluation_pipelines.judging.endpoint.limits import Blame, CircuitOpenError, Suspect, Symptom
from evaluation_pipelines.judging.endpoint.replies import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import Failure, Phase, ReceivedReply
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.session_windows import (
    WindowKey,
    by_window,
    read_session_events,
    window_key,
)
from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score
from evaluation_pipelines.schemas.telemetry import TEXTS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.queries import QueryError
from evaluation_pipelines.times import to_us

_FACTS = ("content_level", "redactions", "truncated", "injection_suspected")
"""Fields of a score that say what the judge was shown."""

_CHUNK = 32
"""Sessions whose events are read together; bounds the memory of the sessions that wait."""


@dataclass(frozen=True, slots=True)
class PromptInput:
    """Input for judging one session."""

    candidate: Candidate
    score_id: str
    conversation: Conversation
    facts: Mapping[str, Any]

    def open_calls(self, max_output_tokens: int) -> tuple[PlannedCall, ...]:
        """Return the calls that can be made now.

        Money for those that follow is reserved when their length is known.
        """
        requests = self.conversation.open_requests()
        sent = [estimated_message_tokens(request.messages) for request in requests]
        return tuple(PlannedCall(tokens, max_output_tokens) for tokens in sent)


@dataclass(frozen=True, slots=True)
class PromptFailure:
    """A session without prompt input.

    Attributes:
        candidate: The session.
        kind: ``unreadable`` (the events of its date cannot be read), ``changed`` (new events have
            arrived since it was selected) or ``unusable`` (no prompt can be built from it).
        reason: A sentence for users.
    """

    candidate: Candidate
    kind: Literal["unreadable", "changed", "unusable"]
    reason: str


async def produce_prompts(
    lake: Lake, settings: Settings, candidates: Sequence[Candidate]
) -> AsyncIterator[PromptInput | PromptFailure]:
    """Yield the prompt input of all candidates in order; reading and rendering run in threads."""
    unreadable: dict[date, str] = {}
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        events = await _read_chunk(lake, chunk, unreadable)
        for candidate in chunk:
            window = candidate.window
            if window.session_date in unreadable:
                yield PromptFailure(candidate, "unreadable", unreadable[window.session_date])
            elif window_key(window) not in events:
                yield PromptFailure(candidate, "changed", "the session has continued since")
            elif _has_lost_texts(window, events[window_key(window)]):
                yield PromptFailure(candidate, "changed", "its texts have expired since")
            else:
                yield await _prepare_in_thread(candidate, events.pop(window_key(window)), settings)


def _has_lost_texts(window: Window, events: pl.DataFrame) -> bool:
    """Return whether a window that had texts when it was selected has none: they expired since."""
    had_texts = window.content_level != "none"
    return had_texts and all(events[name].is_null().all() for name in TEXTS)


def prepare(candidate: Candidate, events: pl.DataFrame, settings: Settings) -> PromptInput:
    """Build the conversation of a window, including the replies that it has already."""
    unfinished = candidate.unfinished
    score_id = candidate.score_id()
    transcript = build_transcript(
        events,
        candidate.window.content_level,
        settings.judge_max_transcript_tokens,
        partial(redact, personal=settings.judge_redact_personal, seal=SEAL),
    )
    plan = candidate.plan
    prompts = render_prompts(plan.rubric, plan.criteria, transcript, _fence_boundary(score_id))
    samples = plan.setup.samples if unfinished is None else unfinished.samples
    turns = () if unfinished is None else unfinished.turn_log
    facts = {name: getattr(transcript, name) for name in _FACTS}
    not_asked = None if plan.asks_missing_tools else "not asked"
    conversation = Conversation(prompts, plan.criteria, samples, missing_tools_failure=not_asked)
    conversation = replay(conversation, turns)
    return PromptInput(candidate, score_id, conversation, facts)


def _fence_boundary(score_id: str) -> str:
    """Return the fence boundary of a judgment, which was unknown when the session was recorded.

    It is derived from the random id of the judgment, so that a restart sends the same prompt.
    """
    return hashlib.sha256(f"boundary of {score_id}".encode()).hexdigest()[:32]


def replay(conversation: Conversation, turns: Iterable[LoggedTurn]) -> Conversation:
    """Return a conversation after the replies of a turn log."""
    for turn in turns:
        conversation = conversation.with_reply(turn.turn, Reply(turn.text, turn.finish_reason))
    return conversation


async def _read_chunk(
    lake: Lake, chunk: Sequence[Candidate], unreadable: dict[date, str]
) -> dict[WindowKey, pl.DataFrame]:
    """Return the events of some windows; dates that cannot be read are added to ``unreadable``."""
    windows: dict[date, list[Window]] = {}
    for candidate in chunk:
        windows.setdefault(candidate.window.session_date, []).append(candidate.window)
    events: dict[date, pl.DataFrame] = {}
    for day in sorted(windows):
        try:
            events[day] = await asyncio.to_thread(read_session_events, lake, day, windows[day])
        except LakeError as error:
            unreadable[day] = str(error)
    return await asyncio.to_thread(_split, events, windows, unreadable)


def _split(
    events: Mapping[date, pl.DataFrame],
    windows: Mapping[date, Sequence[Window]],
    unreadable: dict[date, str],
) -> dict[WindowKey, pl.DataFrame]:
    """Return the events of each window; planning the SQL takes as long for one date as for all."""
    if not events:
        return {}
    wanted = [window for day in events for window in windows[day]]
    try:
        return by_window(pl.concat(events.values()), wanted)
    except QueryError as error:
        if len(events) == 1:
            unreadable |= dict.fromkeys(events, str(error))
            return {}
    # One of the dates is at fault: each alone.
    alone = [_split({day: rows}, windows, unreadable) for day, rows in events.items()]
    return {key: rows for by_session in alone for key, rows in by_session.items()}


async def _prepare_in_thread(
    candidate: Candidate, events: pl.DataFrame, settings: Settings
) -> PromptInput | PromptFailure:
    """Prepare one session; an error in it must not stop the others."""
    try:
        return await asyncio.to_thread(prepare, candidate, events, settings)
    except Exception as error:  # noqa: BLE001 - any error here is limited to this session
        reason = f"no prompt can be built from the session: {type(error).__name__}: {error}"
        return PromptFailure(candidate, "unusable", reason)


_OF_VERDICT = (
    *("outcome", "inconsistent_total", "outside_ceiling", "incomplete_criteria"),
    *("short_analysis", "numbers_from_reminder"),
)


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """An unfinished judgment that another run continues from its replies.

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
        score: The judgment.
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
    booked_usd: float = 0.0
    planned_turns: frozenset[str] = frozenset()
    _has_estimates: bool = False

    async def run(self) -> Score | LeftOpen | Suspect:
        """Judge the session.

        Returns:
            The completed or failed judgment, the reason why it is left unfinished, or the failed
            call, if it is not yet known whether the session caused it. The judgment is left
            unfinished then, too.

        Raises:
            LockLostError: Another process may judge now; the replies that arrived are stored.
        """
        while (outcome := self.conversation.outcome()) is None:
            if (why := self.context.lets_go) is not None:
                await self.leave()
                return LeftOpen(LeftOpenReason.YIELDED, why)
            requests = self.conversation.open_requests()
            calls = [self._ask(request) for request in requests]
            # All calls are awaited: a reply that was paid for is kept even if another call fails.
            answers = await asyncio.gather(*calls, return_exceptions=True)
            problems = [
                (request, answer)
                for request, answer in zip(requests, answers, strict=True)
                if answer is not None
            ]
            # Problems of the endpoint or the budget come first: they must not fail the session.
            problems.sort(key=lambda problem: isinstance(problem[1], JudgeCallError))
            for request, problem in problems:
                ended = await self.refuse(request.turn, problem)
                if ended is not None:
                    return ended
        return await self.end(outcome)

    def take_rest(self) -> float:
        """Return what the ledger has and the calls of this run did not cost."""
        return self.booked_usd - self.reservation.spent_usd

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
        """Reserve money for a call that was not open when the judgment started."""
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
        asked = {request.turn for request in self.conversation.open_requests()}
        is_last = is_current and MISSING_TOOLS_TURN in asked
        next_phase: Phase | None = "identifying_missing_tools" if is_last else None
        # What the ledger has and the judgment does not need: calls in flight need theirs.
        unused_usd = self.booked_usd - self.reservation.spent_usd - self.reservation.reserved_usd
        self.booked_usd -= unused_usd
        reply = ReceivedReply(self.score.score_id, logged, unused_usd, next_phase, released_usd)
        ledger = self.context.ledger
        self.context.budget_gate.note_reply(self.reservation)
        with suppress(ValueError):  # if the lock was lost, another judge may have its own reply
            await ledger.run(ledger.store.log_turn, reply)
        self.report.count_reply(logged)

    async def refuse(self, turn: str, problem: BaseException) -> LeftOpen | Suspect | None:
        """End the judgment after a failed call; return ``None`` if it can continue."""
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
                return Suspect(self.score.score_id, symptom, problem.reason, problem.retriable)
        raise problem

    async def end(self, outcome: Judgment | FailedConversation) -> Score:
        """Complete the judgment, or mark it as failed."""
        ledger, score_id, now = self.context.ledger, self.score.score_id, self.context.clock()
        if isinstance(outcome, FailedConversation):
            failure = Failure(outcome.reason, outcome.retriable)
            return await ledger.run(ledger.store.fail, score_id, failure, now, self.take_rest())
        estimated = self._has_estimates or any(
            turn.is_usage_estimated for turn in self.score.turn_log
        )
        result = score_result(outcome, estimated_usage=estimated)
        return await ledger.run(ledger.store.complete, score_id, result, now, self.take_rest())

    async def leave(self) -> None:
        """Leave the judgment to another run, and book what its calls have cost."""
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
        **{name: getattr(verdict, name) for name in _OF_VERDICT},
        "estimated_usage": estimated_usage,
    }
