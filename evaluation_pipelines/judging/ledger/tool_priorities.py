"""Questions to a model about the priorities of missing tools, with answers and costs."""

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.ledger.day_budget import check_day_budget, lock_day_budget
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import TOOL_PRIORITIES
from evaluation_pipelines.times import to_us

_ROW = TOOL_PRIORITIES.c


@dataclass(frozen=True, slots=True)
class PriorityQuestion:
    """Question about the missing tools of an organization in a period; it is asked once."""

    organization_id: str
    period_start: date
    period_end: date
    judge_model: str


@dataclass(frozen=True, slots=True)
class PriorityAnswer:
    """Outcome of a question: an answer, or the reason why it failed.

    Costs are in USD, ``None`` if unknown; ``booked_cost_usd`` counts against the budget.
    """

    answer: str | None
    error_message: str | None
    usage: Usage | None
    judge_cost_usd: float | None
    booked_cost_usd: float | None


@dataclass(frozen=True, slots=True)
class AskedPriorities:
    """A question in the ledger; without ``answer`` and ``error_message`` it is in progress."""

    organization_id: str
    judge_model: str
    asked_at_us: int
    answer: str | None
    error_message: str | None
    judge_cost_usd: float | None


class PriorityStore:
    """Reader and writer of ``tool_priorities``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def begin(
        self, question: PriorityQuestion, reservation: DayReservation | None, now: datetime
    ) -> bool:
        """Insert a question and book the most that it can cost.

        Args:
            question: The question.
            reservation: Its highest cost; ``None`` if the price is unknown.
            now: The time.

        Returns:
            False if the question has been asked already.

        Raises:
            DayBudgetReachedError: The cost does not fit into the daily budget.
        """
        values = {name: getattr(question, name) for name in question.__slots__}
        values["asked_at_us"] = to_us(now)
        values["booked_cost_usd"] = None if reservation is None else reservation.now_usd
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            if reservation is not None:
                check_day_budget(connection, reservation, now)
            insert = insert_into(connection, TOOL_PRIORITIES).values(values)
            added = insert.on_conflict_do_nothing().returning(_ROW.asked_at_us)
            return connection.execute(added).one_or_none() is not None

    def book_more(
        self, question: PriorityQuestion, reservation: DayReservation, now: datetime
    ) -> None:
        """Book another request for a question.

        Raises:
            DayBudgetReachedError: The cost does not fit into the daily budget.
        """
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            check_day_budget(connection, reservation, now)
            booked_usd = _ROW.booked_cost_usd + reservation.now_usd
            update = sa.update(TOOL_PRIORITIES).where(_is(question))
            connection.execute(update.values(booked_cost_usd=booked_usd))

    def end(self, question: PriorityQuestion, answer: PriorityAnswer) -> None:
        """Store the outcome of a question."""
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

    def in_period(self, period_start: date, period_end: date) -> list[AskedPriorities]:
        """Return the requests to rank the missing tools of a period, sorted by organization."""
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
