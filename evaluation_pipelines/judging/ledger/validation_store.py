"""Validations of judges in the ledger, and the money that they spend."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.validation.figures import JudgedSession
from evaluation_pipelines.judging.ledger.day_budget import check_day_budget, lock_day_budget
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_VALIDATIONS
from evaluation_pipelines.times import to_us

_ROW = JUDGE_VALIDATIONS.c


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """A validation: its judge, and the labelled sessions with their verdicts.

    Attributes:
        run_id: UUID.
        judge_model, rubric, prompt_hash: The judge.
        set_hash: Hash of the labelled sessions.
        started_at_us: Time of the beginning in microseconds since 1970.
        completed_at_us: Time of the end; ``None`` if the run was killed.
        stop_reason: Why it ended early; ``None`` if all sessions were judged.
        sessions: The judged sessions.
    """

    run_id: str
    judge_model: str
    rubric: str
    prompt_hash: str
    set_hash: str
    started_at_us: int
    completed_at_us: int | None = None
    stop_reason: str | None = None
    sessions: tuple[JudgedSession, ...] = ()


class ValidationStore:
    """Reader and writer of ``judge_validations``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(self, run: ValidationRun) -> None:
        """Insert a run without sessions."""
        values = {**asdict(run), "sessions": [], "booked_at_us": run.started_at_us}
        with writing(self._engine) as connection:
            connection.execute(sa.insert(JUDGE_VALIDATIONS).values(values))

    def reserve(self, run_id: str, reservation: DayReservation, now: datetime) -> None:
        """Book the most that a call can cost, before it is made.

        Raises:
            DayBudgetReachedError: The cost does not fit into the daily budget.
        """
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            check_day_budget(connection, reservation, now)
            self._book(connection, run_id, reservation.now_usd, now)

    def settle(self, run_id: str, unspent_usd: float, now: datetime) -> None:
        """Return the part of a booked amount that a call did not cost."""
        with writing(self._engine) as connection:
            self._book(connection, run_id, -unspent_usd, now)

    def end(
        self,
        run_id: str,
        sessions: Sequence[JudgedSession],
        stop_reason: str | None,
        now: datetime,
    ) -> ValidationRun:
        """Store the verdicts of a run."""
        values = {
            "sessions": [asdict(each) for each in sessions],
            "stop_reason": stop_reason,
            "completed_at_us": to_us(now),
        }
        update = sa.update(JUDGE_VALIDATIONS).where(_ROW.run_id == run_id).values(values)
        with writing(self._engine) as connection:
            row = connection.execute(update.returning(JUDGE_VALIDATIONS)).mappings().one()
            return _run(row)

    def ended(self) -> list[ValidationRun]:
        """Return all runs that have ended, oldest first."""
        query = sa.select(JUDGE_VALIDATIONS).where(_ROW.completed_at_us.is_not(None))
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_ROW.started_at_us, _ROW.run_id)).mappings()
            return [_run(row) for row in rows]

    def _book(self, connection: sa.Connection, run_id: str, usd: float, now: datetime) -> None:
        booked_usd = sa.func.coalesce(_ROW.booked_cost_usd, 0.0) + usd
        update = sa.update(JUDGE_VALIDATIONS).where(_ROW.run_id == run_id)
        connection.execute(update.values(booked_cost_usd=booked_usd, booked_at_us=to_us(now)))


def _run(row: sa.RowMapping) -> ValidationRun:
    values: dict[str, Any] = {name: row[name] for name in ValidationRun.__slots__}
    sessions = tuple(_session(each) for each in row["sessions"])
    return ValidationRun(**{**values, "sessions": sessions})


def _session(stored: dict[str, Any]) -> JudgedSession:
    tags = stored["tags"]
    return JudgedSession(**{**stored, "tags": None if tags is None else tuple(tags)})
