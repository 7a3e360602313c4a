"""Late outcomes in the ledger, and the dates that they change."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import date

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.people import LATE_OUTCOMES, OUTCOME_DATES
from evaluation_pipelines.storage.ledger.tables.telemetry import SESSION_INDEX
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome

_LATE, _QUEUED, _SESSION = LATE_OUTCOMES.c, OUTCOME_DATES.c, SESSION_INDEX.c
_KEY = [column.name for column in LATE_OUTCOMES.primary_key]

LATE = pl.Schema(
    {column.name: SESSION_OUTCOMES.schema[column.name] for column in LATE_OUTCOMES.columns}
)
"""Columns of a late outcome. ``session_key`` and ``reference`` are empty if there is none."""


class OutcomeStore:
    """Operations on ``late_outcomes`` and ``outcome_dates``. Every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def add(self, outcomes: Iterable[LateOutcome]) -> None:
        """Store outcomes and queue the dates of their sessions.

        One with the key of a stored one takes its place, unless its source was read earlier.
        """
        with writing(self._engine) as connection:
            add_outcomes(connection, outcomes)

    def of_dates(self, days: Collection[date]) -> pl.DataFrame:
        """Return LATE of the sessions of some dates."""
        ids = sa.select(_SESSION.session_id).where(_SESSION.session_date.in_(days))
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(LATE_OUTCOMES).where(_LATE.session_id.in_(ids)))
            return pl.DataFrame([tuple(row) for row in rows], LATE, orient="row")

    def knows(self, organization_id: str, session_id: str) -> bool:
        """Return whether telemetry of a session of an organization has arrived."""
        is_its = _SESSION.session_id == session_id, _SESSION.organization_id == organization_id
        query = sa.select(_SESSION.session_id).where(*is_its)
        with reading(self._engine) as connection:
            return connection.scalar(query) is not None

    def queued(self) -> dict[date, int]:
        """Return the dates whose outcomes have changed, and the version of each change."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(OUTCOME_DATES).order_by(_QUEUED.session_date))
            return {row.session_date: row.version for row in rows}

    def mark_written(self, day: date, version: int) -> None:
        """Take a date out of the queue, unless its outcomes have changed again."""
        is_same = (_QUEUED.session_date == day) & (_QUEUED.version == version)
        with writing(self._engine) as connection:
            connection.execute(sa.delete(OUTCOME_DATES).where(is_same))


def add_outcomes(connection: sa.Connection, outcomes: Iterable[LateOutcome]) -> None:
    """Do the same as ``OutcomeStore.add`` within the caller's transaction."""
    rows = [asdict(outcome) for outcome in outcomes]
    if not rows:
        return
    insert = insert_into(connection, LATE_OUTCOMES)
    values = {
        column.name: insert.excluded[column.name] for column in _LATE if column.name not in _KEY
    }
    is_newer = insert.excluded.read_at >= _LATE.read_at
    update = insert.on_conflict_do_update(index_elements=_KEY, set_=values, where=is_newer)
    connection.execute(update, rows)
    _queue(connection, {row["session_id"] for row in rows})


def _queue(connection: sa.Connection, session_ids: Collection[str]) -> None:
    """Queue the dates of known sessions. Builds of other dates read their late outcomes."""
    days = set[date]()
    for chunk in chunks(session_ids):
        query = sa.select(_SESSION.session_date).where(_SESSION.session_id.in_(chunk)).distinct()
        days.update(connection.scalars(query))
    insert = insert_into(connection, OUTCOME_DATES)
    again = {"version": _QUEUED.version + 1}
    update = insert.on_conflict_do_update(index_elements=[_QUEUED.session_date], set_=again)
    if days:
        connection.execute(update, [{"session_date": day, "version": 1} for day in sorted(days)])
