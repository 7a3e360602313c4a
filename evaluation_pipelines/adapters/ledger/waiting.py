"""Dates with sessions that had not ended: due again once these have, without any new telemetry."""

from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.adapters.ledger.scorecard_tables import WAITING_DATES
from evaluation_pipelines.adapters.ledger.touched import touch

_DATE = WAITING_DATES.c


class WaitingDates:
    """Operations on ``waiting_dates``; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def expect(self, session_date: date, due_at: datetime | None) -> None:
        """A date is to be built again at a time; None when nothing of it is open."""
        with writing(self._engine) as connection:
            if due_at is None:
                connection.execute(
                    sa.delete(WAITING_DATES).where(_DATE.session_date == session_date)
                )
                return
            row = {"session_date": session_date, "due_at": due_at}
            insert = insert_into(connection, WAITING_DATES).values(row)
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=[_DATE.session_date], set_={"due_at": due_at}
                )
            )

    def wake(self, now: datetime) -> list[date]:
        """Make the dates due whose time has come; gives them, oldest first."""
        come = _DATE.due_at <= now
        query = sa.select(_DATE.session_date).where(come).order_by(_DATE.session_date)
        with reading(self._engine) as connection:
            if not connection.scalars(query).first():  # nearly always: no lock for nothing
                return []
        with writing(self._engine) as connection:
            dates = list(connection.scalars(query))
            connection.execute(sa.delete(WAITING_DATES).where(come))
            touch(connection, dates, now)
            return dates
