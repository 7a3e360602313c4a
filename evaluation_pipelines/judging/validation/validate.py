"""Validation of a judge: labelled sessions are judged as real ones are, within the same budget."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import uuid4

from evaluation_pipelines.judging.domain.blame import Blame, Suspect
from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall, worst_case_usd
from evaluation_pipelines.judging.domain.budget.run_budget import Budget, Deferred, MeteredCall
from evaluation_pipelines.judging.domain.conversation import JudgeRequest, Judgment, why_useless
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.domain.validation.attacks import ATTACKS
from evaluation_pipelines.judging.domain.validation.figures import JudgedSession
from evaluation_pipelines.judging.domain.validation.labelled import SEVERITIES, LabelledSession
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitOpenError
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, JudgeClient
from evaluation_pipelines.judging.endpoint.configured import (
    judge_budget_limits,
    judge_client,
    judge_pricing,
)
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.metered import ask_metered
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.judge import utc_now
from evaluation_pipelines.judging.ledger.errors import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import clear_left
from evaluation_pipelines.judging.ledger.validation_store import ValidationRun, ValidationStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, load_plans
from evaluation_pipelines.judging.runner.candidates import serving_requests
from evaluation_pipelines.judging.runner.prompt_input import prepare
from evaluation_pipelines.judging.runner.session_scoring import SYMPTOMS
from evaluation_pipelines.judging.termination import terminated_as_interrupted
from evaluation_pipelines.judging.validation.labelled_files import set_hash
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.lock import JUDGE, Hold, held
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.prices import PriceTable
from evaluation_pipelines.times import to_us

_Number = TypeVar("_Number", int, float)


INTERRUPTED = "interrupted"
"""Reason of a run that was ended by Ctrl-C."""


class _StoppedError(Exception):
    """The run cannot go on: the endpoint is down, or the budget is used up."""


@terminated_as_interrupted()
def validate(
    stores: Stores,
    plan: JudgePlan,
    sessions: Sequence[LabelledSession],
    max_cost_usd: float | None = None,
    progress: Progress | None = None,
) -> ValidationRun:
    """Judge labelled sessions by ``plan`` and store the result in the ledger.

    The score turn with its reminder is asked, not the question about missing tools. If the endpoint
    is down, after several useless replies in a row, at the end of the budget and by Ctrl-C the run
    ends with what it has.

    Raises:
        JudgeNotReadyError: No judge is configured.
        LedgerError: The ledger cannot be used.
    """
    now, model = utc_now(), plan.setup.model
    client = judge_client(stores.settings, now, model)
    if client is None:
        raise JudgeNotReadyError(stores.settings.why_no_judge or "no judge is configured")
    run = ValidationRun(
        *(str(uuid4()), model, plan.rubric.name, plan.setup.prompt_hash, set_hash(sessions)),
        started_at_us=to_us(now),
    )
    store = ValidationStore(stores.ledger)
    limits = judge_budget_limits(stores.settings)
    amounts = [each for each in (limits.max_run_usd, max_cost_usd) if each is not None]
    budget = Budget(replace(limits, max_sessions=None, max_run_usd=min(amounts, default=None)))
    silent = replace(plan, asks_missing_tools=False)
    blame = Blame(stores.settings.judge_breaker_failures)
    work = _Validation(stores, store, run, client, budget, silent, blame, progress or Silent())
    plans = load_plans(stores, now)

    async def judge_all(hold: Hold) -> None:
        async with serving_requests(stores, plans, hold, utc_now):
            await work.judge_all(sessions)

    with held(stores.ledger, JUDGE) as hold:
        clear_left(stores.ledger, hold)
        store.begin(run)
        try:
            asyncio.run(judge_all(hold))
        except KeyboardInterrupt:
            work.stop_reason = INTERRUPTED
    return store.end(run.run_id, work.result(sessions), work.stop_reason, utc_now())


def with_attacks(sessions: Sequence[LabelledSession]) -> list[LabelledSession]:
    """Return the sessions, and each attack in a severely flawed one of the tasks in turn.

    These follow once more without an attack: what chance alone does to their totals.
    """
    worst = max(SEVERITIES.values())
    severe = list({each.task: each for each in sessions if each.severity == worst}.values())
    attacked = [
        severe[number % len(severe)].attacked(each.name, each.text)
        for number, each in enumerate(ATTACKS)
        if severe
    ]
    return [*sessions, *attacked, *(each.again() for each in severe[: len(ATTACKS)])]


@dataclass(slots=True)
class _Validation:
    """Work of one run: sessions are judged concurrently, each call reserved before it is made."""

    stores: Stores
    store: ValidationStore
    run: ValidationRun
    client: JudgeClient
    budget: Budget
    plan: JudgePlan
    blame: Blame
    progress: Progress
    judged: list[JudgedSession] = field(default_factory=list)
    stop_reason: str | None = None

    async def judge_all(self, sessions: Sequence[LabelledSession]) -> None:
        """Judge the sessions until all are judged or the run is stopped."""
        self.progress.begin("judging labelled sessions", len(sessions))
        waiting = iter(sessions)
        async with self.client:
            workers = self.stores.settings.judge_concurrency
            await asyncio.gather(*(self._work(waiting) for _ in range(workers)))

    def result(self, sessions: Sequence[LabelledSession]) -> list[JudgedSession]:
        """Return what was judged, in the order of the sessions.

        Sessions that the endpoint refused alike, as it would any other, count as unreachable.
        """
        _, due = self.blame.settle(is_endpoint_down=self.stop_reason is not None)
        unreachable = {each.score_id for each in due}
        by_name = {each.name: each for each in self.judged}
        return [
            replace(found, is_unreachable=found.is_unreachable or found.name in unreachable)
            for found in (by_name.get(each.name) for each in sessions)
            if found is not None
        ]

    async def _work(self, waiting: Iterator[LabelledSession]) -> None:
        for session in waiting:
            if self.stop_reason is not None:
                return
            try:
                self.judged.append(await self._judge(session))
                self._stop(self.blame.stop_reason())
            except _StoppedError as stopped:
                self._stop(str(stopped))
            self.progress.advance(1)

    def _stop(self, reason: str | None) -> None:
        """Start no further session, if there is a reason; the first one stays."""
        self.stop_reason = self.stop_reason or reason

    async def _judge(self, session: LabelledSession) -> JudgedSession:
        candidate = Candidate(session.window(), self.plan, None)
        prompt = await asyncio.to_thread(prepare, candidate, session.events(), self.stores.settings)
        conversation, answers = prompt.conversation, list[JudgeAnswer]()
        judged = JudgedSession(
            *(session.task, session.name, session.kind, session.severity, session.attack),
            agent_family=_family(session.agent_model),
        )
        try:
            while (outcome := conversation.outcome()) is None:
                for request in conversation.open_requests():
                    answers.append(await self._ask(request))
                    conversation = conversation.with_reply(request.turn, answers[-1].reply)
        except JudgeCallError as error:
            is_unreachable = self._blame_for(session, error)
            failed = replace(judged, problem=error.reason, is_unreachable=is_unreachable)
            return _with_calls(failed, answers)
        if not isinstance(outcome, Judgment):
            return _with_calls(replace(judged, problem=outcome.reason), answers)
        verdict = outcome.verdict
        scored = replace(judged, total=verdict.total, tags=verdict.failure_tags)
        return _with_calls(scored, answers)

    def _blame_for(self, session: LabelledSession, error: JudgeCallError) -> bool:
        """Note a failed call; return whether the endpoint alone is to blame for it."""
        symptom = SYMPTOMS.get(error.fault, "other")
        self.blame.add(Suspect(session.name, symptom, error.reason, error.retriable))
        if error.fault is Fault.UNREACHABLE:
            self._stop(error.reason)
        return error.fault is Fault.UNREACHABLE or symptom in {"silent", "faulty"}

    async def _ask(self, request: JudgeRequest) -> JudgeAnswer:
        """Reserve the highest cost of a call, make it, and book its actual cost."""
        settings = self.stores.settings
        tokens = estimated_message_tokens(request.messages)
        call = PlannedCall(tokens, settings.judge_max_output_tokens)
        most = worst_case_usd([call], judge_pricing(settings, self.run.judge_model, utc_now()))
        reservation = self.budget.admit(most)
        if isinstance(reservation, Deferred):
            raise _StoppedError(reservation.reason)
        try:
            await self._reserve(most)
            metered = MeteredCall(reservation, most)
            return await self._answer(request, metered)
        finally:
            reservation.close()

    async def _answer(self, request: JudgeRequest, metered: MeteredCall) -> JudgeAnswer:
        most = metered.worst_case_usd

        async def reserve_again() -> bool:
            try:
                await self._reserve(most)
            except _StoppedError:
                return False
            return True

        try:
            answer = await ask_metered(self.client, request.messages, metered, reserve_again)
        except (CircuitOpenError, BudgetReachedError) as error:
            raise _StoppedError(str(error)) from error
        finally:
            if most is not None and (unspent := metered.unspent_usd):
                await asyncio.to_thread(self.store.settle, self.run.run_id, unspent, utc_now())
        self.blame.note_reply(why_useless(answer.reply))
        return answer

    async def _reserve(self, most: float | None) -> None:
        if most is None:
            return
        day_usd = self.stores.settings.judge_max_cost_per_day_usd
        reservation = DayReservation(most, max_day_usd=day_usd)
        try:
            await asyncio.to_thread(self.store.reserve, self.run.run_id, reservation, utc_now())
        except DayBudgetReachedError as error:
            raise _StoppedError(error.refused.reason) from error


def _known_sum(values: Sequence[_Number | None]) -> _Number | None:
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None


def _family(model: str | None) -> str | None:
    return None if model is None else PriceTable().provider_of(model)


def _with_calls(judged: JudgedSession, answers: Sequence[JudgeAnswer]) -> JudgedSession:
    """Return a judged session with the sums of its calls; unknown if one of them is unknown."""
    used = [each.usage for each in answers]
    costs = [each.cost_usd for each in answers]
    read = [None if each is None else each.input_tokens + each.cached_tokens for each in used]
    written = [None if each is None else each.output_tokens for each in used]
    return replace(
        judged,
        input_tokens=_known_sum(read),
        output_tokens=_known_sum(written),
        cost_usd=_known_sum(costs),
        seconds=sum(each.latency_ms for each in answers) / 1000,
    )
