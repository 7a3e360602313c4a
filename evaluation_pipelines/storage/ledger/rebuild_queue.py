"""Dates with new data: which are to be built, tried again, or given up for now."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.scorecards import WAITING_DATES
from evaluation_pipelines.storage.ledger.tables.telemetry import TOUCHED_DATES

FIRST_RETRY_AFTER = timedelta(minutes=1)
"""Wait after the first failure; it doubles with each one more."""

_DATE = TOUCHED_DATES.c
_WAITING = WAITING_DATES.c
_FRESH: dict[str, Any] = {
    "attempts": 0,
    "last_error": None,
    "next_attempt_at": None,
    "parked": False,
}


@dataclass(frozen=True, slots=True)
class QueuedDate:
    """A date with new data: due while ``built_version`` is behind ``version``."""

    session_date: date
    version: int
    touched_at: datetime
    built_version: int | None
    attempts: int
    last_error: str | None
    next_attempt_at: datetime | None
    parked: bool

    @property
    def is_built(self) -> bool:
        """Whether the newest data of the date has been built."""
        return self.built_version == self.version


class RebuildQueue:
    """Operations on ``touched_dates``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def pending(self, now: datetime) -> list[QueuedDate]:
        """The dates to build now, oldest first: behind, not parked, not waiting for a retry."""
        return self._select(
            sa.or_(_DATE.built_version.is_(None), _DATE.built_version < _DATE.version),
            _DATE.parked.is_(False),
            sa.or_(_DATE.next_attempt_at.is_(None), _DATE.next_attempt_at <= now),
        )

    def all(self) -> list[QueuedDate]:
        """Every date that ever had data, oldest first."""
        return self._select()

    def get(self, session_date: date) -> QueuedDate | None:
        """One date; None when it never had data."""
        return next(iter(self._select(_DATE.session_date == session_date)), None)

    def held(self, now: datetime) -> list[QueuedDate]:
        """The dates that whoever touched them builds by itself, oldest first."""
        return self._select(
            sa.or_(_DATE.built_version.is_(None), _DATE.built_version < _DATE.version),
            _DATE.parked.is_(False),
            _DATE.attempts == 0,
            _DATE.next_attempt_at > now,
        )

    def touch(
        self, dates: Collection[date], now: datetime, held_until: datetime | None = None
    ) -> None:
        """Make dates due: something that they are made from has changed.

        Until ``held_until`` they are left to the caller, unless they are touched once more.
        """
        with writing(self._engine) as connection:
            touch(connection, dates, now, held_until)

    def mark_built(self, session_date: date, version: int) -> bool:
        """Note that the data of ``version`` is built.

        Returns:
            False when the date was touched again meanwhile: nothing changes, it stays due.
        """
        update = _of(session_date, version).values(built_version=version, **_FRESH)
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount > 0

    def mark_failed(
        self, session_date: date, version: int, error: str, now: datetime, max_attempts: int = 4
    ) -> QueuedDate | None:
        """Note a failed build: retried after 1, 2, 4 ... minutes, parked at ``max_attempts``.

        Returns:
            The date as it stands now (``parked`` says whether to raise an alert); None when it
            was touched again meanwhile: nothing changes, the new data is a new chance.
        """
        query = sa.select(_DATE.attempts).where(*_is(session_date, version)).with_for_update()
        with writing(self._engine) as connection:
            failed: int | None = connection.scalar(query)
            if failed is None:
                return None
            parked = failed + 1 >= max_attempts
            update = _of(session_date, version).values(
                attempts=failed + 1,
                last_error=error,
                next_attempt_at=None if parked else now + FIRST_RETRY_AFTER * 2**failed,
                parked=parked,
            )
            row = connection.execute(update.returning(TOUCHED_DATES)).mappings().one()
            return QueuedDate(**row)

    def revive(self, session_date: date) -> bool:
        """Give a date all its attempts again, due at once; its last error stays readable.

        Returns:
            False when the date was never touched.
        """
        again = {name: value for name, value in _FRESH.items() if name != "last_error"}
        update = sa.update(TOUCHED_DATES).where(_DATE.session_date == session_date).values(again)
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount > 0

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[QueuedDate]:
        query = sa.select(TOUCHED_DATES).where(*conditions).order_by(_DATE.session_date)
        with reading(self._engine) as connection:
            return [QueuedDate(**row) for row in connection.execute(query).mappings()]


def touch(
    connection: sa.Connection,
    dates: Collection[date],
    now: datetime,
    held_until: datetime | None = None,
) -> None:
    """Make dates due, within the caller's transaction; new data is a new chance if parked."""
    if not dates:
        return
    fresh = {"touched_at": now, **_FRESH, "next_attempt_at": held_until}
    rows = [{"session_date": each, "version": 1, **fresh} for each in sorted(dates)]
    insert = insert_into(connection, TOUCHED_DATES)
    again = {"version": _DATE.version + 1, **fresh}
    connection.execute(
        insert.on_conflict_do_update(index_elements=[_DATE.session_date], set_=again), rows
    )


def _is(session_date: date, version: int) -> tuple[sa.ColumnElement[bool], ...]:
    return _DATE.session_date == session_date, _DATE.version == version


def _of(session_date: date, version: int) -> sa.Update:
    return sa.update(TOUCHED_DATES).where(*_is(session_date, version))


class ScheduledRebuilds:
    """Operations on ``waiting_dates``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def expect(self, session_date: date, due_at: datetime | None) -> None:
        """A date is to be built again at a time; None when nothing of it is open."""
        with writing(self._engine) as connection:
            if due_at is None:
                connection.execute(
                    sa.delete(WAITING_DATES).where(_WAITING.session_date == session_date)
                )
                return
            row = {"session_date": session_date, "due_at": due_at}
            insert = insert_into(connection, WAITING_DATES).values(row)
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=[_WAITING.session_date], set_={"due_at": due_at}
                )
            )

    def wake(self, now: datetime) -> list[date]:
        """Make the dates due whose time has come; gives them, oldest first."""
        come = _WAITING.due_at <= now
        query = sa.select(_WAITING.session_date).where(come).order_by(_WAITING.session_date)
        with reading(self._engine) as connection:
            if not connection.scalars(query).first():  # nearly always: no lock for nothing
                return []
        with writing(self._engine) as connection:
            dates = list(connection.scalars(query))
            connection.execute(sa.delete(WAITING_DATES).where(come))
            touch(connection, dates, now)
            return dates
