"""What a model was asked about missing tools, what it said and what that cost."""

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.ledger.day_budget import expect_room, wait_for_turn
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import TOOL_PRIORITIES
from evaluation_pipelines.times import to_us

_ROW = TOOL_PRIORITIES.c


@dataclass(frozen=True, slots=True)
class PriorityQuestion:
    """The question about the missing tools of an organization in a period: asked once."""

    organization_id: str
    period_start: date
    period_end: date
    judge_model: str


@dataclass(frozen=True, slots=True)
class PriorityAnswer:
    """How a question ended: with an answer, or with the reason why there is none.

    Money is USD, unknown is None; ``booked_cost_usd`` is what counts against the budget.
    """

    answer: str | None
    error_message: str | None
    usage: Usage | None
    judge_cost_usd: float | None
    booked_cost_usd: float | None


@dataclass(frozen=True, slots=True)
class AskedPriorities:
    """A question that was asked; neither ``answer`` nor ``error_message`` while it is under way."""

    organization_id: str
    judge_model: str
    asked_at_us: int
    answer: str | None
    error_message: str | None
    judge_cost_usd: float | None


class PriorityStore:
    """Operations on ``tool_priorities``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def begin(
        self, question: PriorityQuestion, stake: DayReservation | None, now: datetime
    ) -> bool:
        """Book the most that a question can cost; False when somebody has asked it already.

        ``stake`` None is an unknown price.

        Raises:
            DayBudgetReachedError: it does not fit into what is left of the day.
        """
        values = {name: getattr(question, name) for name in question.__slots__}
        values["asked_at_us"] = to_us(now)
        values["booked_cost_usd"] = None if stake is None else stake.asked_usd
        with writing(self._engine) as connection:
            wait_for_turn(connection, stake)
            if stake is not None:
                expect_room(connection, stake, now)
            insert = insert_into(connection, TOOL_PRIORITIES).values(values)
            added = insert.on_conflict_do_nothing().returning(_ROW.asked_at_us)
            return connection.execute(added).one_or_none() is not None

    def book_more(self, question: PriorityQuestion, stake: DayReservation, now: datetime) -> None:
        """Book another request for a question.

        Raises:
            DayBudgetReachedError: it does not fit into what is left of the day.
        """
        with writing(self._engine) as connection:
            wait_for_turn(connection, stake)
            expect_room(connection, stake, now)
            more = _ROW.booked_cost_usd + stake.asked_usd
            update = sa.update(TOOL_PRIORITIES).where(_is(question))
            connection.execute(update.values(booked_cost_usd=more))

    def end(self, question: PriorityQuestion, answer: PriorityAnswer) -> None:
        """Note how a question ended."""
        usage = answer.usage
        values = {
            "answer": answer.answer,
            "error_message": answer.error_message,
            "judge_cost_usd": answer.judge_cost_usd,
            "booked_cost_usd": answer.booked_cost_usd,
            "input_tokens": None if usage is None else usage.input_tokens,
            "cached_tokens": None if usage is None else usage.cached_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
        }
        with writing(self._engine) as connection:
            connection.execute(sa.update(TOOL_PRIORITIES).where(_is(question)).values(values))

    def of_period(self, period_start: date, period_end: date) -> list[AskedPriorities]:
        """What was asked about a period, by organization."""
        columns = [_ROW[name] for name in AskedPriorities.__slots__]
        query = sa.select(*columns).where(
            _ROW.period_start == period_start, _ROW.period_end == period_end
        )
        if self._as_of is not None:
            query = query.where(_ROW.asked_at_us <= to_us(self._as_of))
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_ROW.organization_id)).mappings()
            return [AskedPriorities(**row) for row in rows]


def _is(question: PriorityQuestion) -> sa.ColumnElement[bool]:
    return sa.and_(
        _ROW.organization_id == question.organization_id,
        _ROW.period_start == question.period_start,
        _ROW.period_end == question.period_end,
    )
