"""Prioritization of missing tools by the judge model, once per period and organization."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import uuid4

import polars as pl

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall, worst_case_usd
from evaluation_pipelines.judging.domain.budget.run_budget import Budget, Deferred, MeteredCall
from evaluation_pipelines.judging.domain.missing_tools.counts import MissingToolCounts
from evaluation_pipelines.judging.domain.missing_tools.priorities import (
    priorities_request,
    read_priorities,
)
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitOpenError
from evaluation_pipelines.judging.endpoint.client import JudgeClient
from evaluation_pipelines.judging.endpoint.configured import (
    judge_budget_limits,
    judge_client,
    judge_pricing,
)
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, JudgeCallError
from evaluation_pipelines.judging.endpoint.metered import ask_metered
from evaluation_pipelines.judging.ledger.errors import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import clear_left
from evaluation_pipelines.judging.ledger.tool_priorities import (
    PriorityAnswer,
    PriorityQuestion,
    PriorityStore,
)
from evaluation_pipelines.judging.termination import terminated_as_interrupted
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines.storage.stores import Stores

_PATIENCE_S = 24 * 3600.0
"""Time to wait for another process that judges."""


@terminated_as_interrupted()
def ask_for_priorities(stores: Stores, counted: MissingToolCounts, now: datetime) -> list[str]:
    """Ask the model about each organization that it was not asked about in this period.

    Answers and errors are stored in the ledger.

    Returns:
        One line per organization that was not asked about, with the reason.

    Raises:
        LockTimeoutError: Another process judges for a day.
        LedgerError: The ledger cannot be used.
    """
    settings = stores.settings
    if not settings.judge_orders_missing_tools:
        return []
    if (client := judge_client(settings, now)) is None:
        return [f"not prioritized: {settings.why_no_judge}"]
    period, ledger = counted.period, PriorityStore(stores.ledger)
    done = {each.organization_id for each in ledger.in_period(period.start, period.end)}
    new = [
        each
        for each in counted.tools.partition_by("organization_id")
        if _organization(each) not in done
    ]
    if not new:
        return []
    with held(stores.ledger, JUDGE, timeout_s=_PATIENCE_S) as hold:
        clear_left(stores.ledger, hold)
        return asyncio.run(_ask_all(stores, client, counted, new, now))


async def _ask_all(
    stores: Stores,
    client: JudgeClient,
    counted: MissingToolCounts,
    organizations: list[pl.DataFrame],
    now: datetime,
) -> list[str]:
    limits = replace(judge_budget_limits(stores.settings), max_sessions=None)
    budget, refused = Budget(limits), []
    async with client:
        for tools in organizations:
            question = PriorityQuestion(
                _organization(tools),
                counted.period.start,
                counted.period.end,
                stores.settings.judge_model or "",
            )
            why_not = await _ask(stores, client, budget, question, tools, now)
            if why_not is not None:
                refused.append(f"{_organization(tools)}: not prioritized: {why_not}")
    return refused


async def _ask(
    stores: Stores,
    client: JudgeClient,
    budget: Budget,
    question: PriorityQuestion,
    tools: pl.DataFrame,
    now: datetime,
) -> str | None:
    """Ask about one organization; return the reason if the budget does not allow it."""
    settings = stores.settings
    redaction = partial(redact, personal=settings.judge_redact_personal)
    messages = priorities_request(tools, uuid4().hex, redaction)
    prompt_tokens = estimated_message_tokens(messages)
    call = PlannedCall(prompt_tokens, settings.judge_max_output_tokens)
    most = worst_case_usd([call], judge_pricing(settings, question.judge_model, now))
    reservation = budget.admit(most)
    if isinstance(reservation, Deferred):
        return reservation.reason
    ledger = PriorityStore(stores.ledger)
    day_reservation = None
    if most is not None:
        day_usd = settings.judge_max_cost_per_day_usd
        day_reservation = DayReservation(most, max_day_usd=day_usd)
    try:
        # Booked before it is spent; a concurrent caller finds the question asked.
        if ledger.begin(question, day_reservation, now):
            metered = MeteredCall(reservation, most)
            reserve_again = partial(_reserve_again, ledger, question, day_reservation, now)
            answer = await _answer(client, metered, messages, tools, reserve_again)
            booked = None if most is None else reservation.spent_usd
            ledger.end(question, replace(answer, booked_cost_usd=booked))
    except DayBudgetReachedError as error:
        return error.refused.reason
    finally:
        reservation.close()
    return None


async def _reserve_again(
    ledger: PriorityStore,
    question: PriorityQuestion,
    day_reservation: DayReservation | None,
    now: datetime,
) -> bool:
    try:
        if day_reservation is not None:
            ledger.book_more(question, day_reservation, now)
    except DayBudgetReachedError:
        return False
    return True


async def _answer(
    client: JudgeClient,
    metered: MeteredCall,
    messages: tuple[Message, ...],
    tools: pl.DataFrame,
    reserve_again: Callable[[], Awaitable[bool]],
) -> PriorityAnswer:
    try:
        answer = await ask_metered(client, messages, metered, reserve_again)
    except (JudgeCallError, CircuitOpenError, BudgetReachedError) as error:
        return PriorityAnswer(None, f"the model did not answer: {error}", None, None, None)
    why_not = None
    try:
        read_priorities(answer.reply, tools)
    except ValueError as error:
        why_not = str(error)
    return PriorityAnswer(answer.reply.text, why_not, answer.usage, answer.cost_usd, None)


def _organization(tools: pl.DataFrame) -> str:
    return str(tools["organization_id"][0])
