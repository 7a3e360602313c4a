"""Rebuild queue: dates to build, their retries, and rebuilds scheduled for later."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias, cast

import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import WAITING_DATES
from evaluation_pipelines.storage.ledger.tables.telemetry import EXPIRED_DATES, TOUCHED_DATES

FIRST_RETRY_AFTER = timedelta(minutes=1)
"""Wait after the first failure; it doubles with each further one."""

_DAMAGE = "DamagedPartError: "
"""How ``Manifest.note_damage`` begins."""

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
    """A date in the queue: due while ``built_version`` is behind ``version``."""

    session_date: date
    version: int
    touched_at: datetime
    built_version: int | None
    attempts: int
    last_error: str | None
    next_attempt_at: datetime | None
    parked: bool

    @property
    def damage(self) -> str | None:
        """Which damaged file was met since the date was last built, and what to do."""
        error = self.last_error or ""
        return error.removeprefix(_DAMAGE) if error.startswith(_DAMAGE) else None

    @property
    def is_built(self) -> bool:
        """True if the newest data of the date is built."""
        return self.built_version == self.version


class RebuildQueue:
    """Operations on ``touched_dates``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def pending(self, now: datetime) -> list[QueuedDate]:
        """Return the dates to build now, oldest first: due, not parked, not waiting for a retry."""
        return self._select(
            sa.or_(_DATE.built_version.is_(None), _DATE.built_version < _DATE.version),
            _DATE.parked.is_(False),
            sa.or_(_DATE.next_attempt_at.is_(None), _DATE.next_attempt_at <= now),
        )

    def all(self) -> list[QueuedDate]:
        """Return every date that ever had data, oldest first."""
        return self._select()

    def get(self, session_date: date) -> QueuedDate | None:
        """Return one date; None if it never had data."""
        return next(iter(self._select(_DATE.session_date == session_date)), None)

    def held(self, now: datetime) -> list[QueuedDate]:
        """Return the dates that are held for the caller who queued them, oldest first."""
        return self._select(
            sa.or_(_DATE.built_version.is_(None), _DATE.built_version < _DATE.version),
            _DATE.parked.is_(False),
            _DATE.attempts == 0,
            _DATE.next_attempt_at > now,
        )

    def touch(
        self, dates: Collection[date], now: datetime, held_until: datetime | None = None
    ) -> None:
        """Queue dates for a rebuild because one of their inputs changed.

        Until ``held_until`` they are left to the caller, unless they are queued again.
        """
        with writing(self._engine) as connection:
            touch(connection, dates, now, held_until)

    def mark_built(self, session_date: date, version: int) -> bool:
        """Record that ``version`` of the date is built.

        Returns:
            False if the date was queued again in between; it stays due.
        """
        update = _update(session_date, version).values(built_version=version, **_FRESH)
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount > 0

    def mark_failed(
        self, session_date: date, version: int, error: str, now: datetime, max_attempts: int = 4
    ) -> QueuedDate | None:
        """Record a failed build: retry after 1, 2, 4 ... minutes, park at ``max_attempts``.

        Returns:
            The date as it is now (``parked`` says whether to raise an alert); None if it was queued
            again in between, which starts over.
        """
        query = sa.select(_DATE.attempts).where(*_is(session_date, version)).with_for_update()
        with writing(self._engine) as connection:
            failed: int | None = connection.scalar(query)
            if failed is None:
                return None
            parked = failed + 1 >= max_attempts
            update = _update(session_date, version).values(
                attempts=failed + 1,
                last_error=error,
                next_attempt_at=None if parked else now + FIRST_RETRY_AFTER * 2**failed,
                parked=parked,
            )
            row = connection.execute(update.returning(TOUCHED_DATES)).mappings().one()
            return QueuedDate(**row)

    def mark_run_failed(
        self, first: date, last: date, began: datetime, error: str, now: datetime
    ) -> list[QueuedDate]:
        """Count a run that died as a failed attempt of the dates it did not build.

        Dates are skipped that are built or parked, that the run itself marked as failed after
        ``began``, or that received new data since.

        Returns:
            The updated dates.
        """
        unbuilt = [
            row
            for row in self.all()
            if first <= row.session_date <= last
            and not (row.is_built or row.parked)
            and (row.next_attempt_at is None or row.next_attempt_at <= began)
            and row.touched_at <= began
        ]
        failed = [
            self.mark_failed(queued_date.session_date, queued_date.version, error, now)
            for queued_date in unbuilt
        ]
        return [queued_date for queued_date in failed if queued_date is not None]

    def revive(self, session_date: date) -> bool:
        """Give a date all its attempts again, due immediately; its last error is kept.

        Returns:
            False if the date never had data.
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
    """Queue dates for a rebuild within the caller's transaction; a parked date starts over.

    Dates whose texts or events have expired are left as they are.
    """
    if dates:
        dates = set(dates) - set(connection.scalars(sa.select(EXPIRED_DATES.c.session_date)))
    if not dates:
        return
    fresh = {"touched_at": now, **_FRESH, "next_attempt_at": held_until}
    rows = [{"session_date": day, "version": 1, **fresh} for day in sorted(dates)]
    insert = insert_into(connection, TOUCHED_DATES)
    again = {"version": _DATE.version + 1, **fresh}
    connection.execute(
        insert.on_conflict_do_update(index_elements=[_DATE.session_date], set_=again), rows
    )


def outdate_begun(connection: sa.Connection) -> None:
    """Leave dates due whose build has begun with older inputs; nothing else changes."""
    is_due = sa.or_(_DATE.built_version.is_(None), _DATE.built_version < _DATE.version)
    # In the order of dates, as `touch` locks them.
    ordered = sa.select(_DATE.session_date).where(is_due).order_by(_DATE.session_date)
    connection.execute(ordered.with_for_update())
    connection.execute(sa.update(TOUCHED_DATES).where(is_due).values(version=_DATE.version + 1))


def _is(session_date: date, version: int) -> tuple[sa.ColumnElement[bool], ...]:
    return _DATE.session_date == session_date, _DATE.version == version


def _update(session_date: date, version: int) -> sa.Update:
    return sa.update(TOUCHED_DATES).where(*_is(session_date, version))


class ScheduledRebuilds:
    """Operations on ``waiting_dates``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def expect(self, session_date: date, due_at: datetime | None) -> None:
        """Schedule a rebuild of ``session_date``; None cancels it."""
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

    def all(self) -> dict[date, datetime]:
        """Return the dates with a scheduled rebuild and its time."""
        query = sa.select(_WAITING.session_date, _WAITING.due_at)
        with reading(self._engine) as connection:
            return {row.session_date: row.due_at for row in connection.execute(query)}

    def wake(self, now: datetime) -> list[date]:
        """Queue the dates whose time has come, and return them, oldest first."""
        come = _WAITING.due_at <= now
        query = sa.select(_WAITING.session_date).where(come).order_by(_WAITING.session_date)
        with reading(self._engine) as connection:
            if not connection.scalars(query).first():  # nearly always: avoid the write lock
                return []
        with writing(self._engine) as connection:
            dates = list(connection.scalars(query))
            connection.execute(sa.delete(WAITING_DATES).where(come))
            touch(connection, dates, now)
            return dates


Expired: TypeAlias = Literal["texts", "events"]

_SETTINGS = {"texts": "EVAL_KEEP_TEXTS_DAYS", "events": "EVAL_KEEP_EVENTS_DAYS"}


class DateExpiredError(UserError):
    """A date cannot be built again: what its tables are made from has expired."""

    def __init__(self, day: date, what: Expired) -> None:
        super().__init__(
            f"{day} is not built again: its {what} have expired ({_SETTINGS[what]}), and its "
            "figures would change. Its sessions and scores stay as they are."
        )


def expired_dates(ledger: Ledger) -> Mapping[date, Expired]:
    """Return what has expired of which dates; the events of a date go with its texts."""
    with reading(ledger.engine) as connection:
        rows = connection.execute(sa.select(EXPIRED_DATES.c.session_date, EXPIRED_DATES.c.what))
        return {day: cast(Expired, what) for day, what in rows}
