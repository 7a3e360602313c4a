"""Ledger storage of erasures: what was done, by whom, and how many rows of what."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    ERASED_EVENTS,
    ERASED_ROWS,
    ERASURES,
)
from evaluation_pipelines.telemetry.ledger.forgotten_store import add_forgotten

_ERASURE = ERASURES.c
_ROWS = ERASED_ROWS.c


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure; ``rows`` has the number of rows that were taken out, by store."""

    erasure_id: int
    subject: str
    requested_by: str
    requested_at: datetime
    completed_at: datetime | None
    rows: Mapping[str, int]


class Erasures:
    """Operations on ``erasures``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(
        self, subject: str, requested_by: str, hashes: Mapping[str, datetime | None], now: datetime
    ) -> int:
        """Record an erasure and what must not come back; return its id.

        From now on no ingest stores anything of it.
        """
        row = {"subject": subject, "requested_by": requested_by, "requested_at": now}
        with writing(self._engine) as connection:
            insert = sa.insert(ERASURES).values(row).returning(_ERASURE.erasure_id)
            erasure_id: int = connection.execute(insert).scalar_one()
            add_forgotten(connection, hashes, erasure_id)
            return erasure_id

    def complete(self, now: datetime) -> None:
        """Record that nothing is left of all that was forgotten so far."""
        update = sa.update(ERASURES).where(_ERASURE.completed_at.is_(None))
        with writing(self._engine) as connection:
            connection.execute(update.values(completed_at=now))

    def all(self) -> list[Erasure]:
        """Return all erasures, the oldest first."""
        with reading(self._engine) as connection:
            rows: dict[int, dict[str, int]] = {}
            for row in connection.execute(sa.select(ERASED_ROWS).order_by(_ROWS.store)):
                rows.setdefault(row.erasure_id, {})[row.store] = row.row_count
            found = connection.execute(sa.select(ERASURES).order_by(_ERASURE.erasure_id))
            return [
                Erasure(**row, rows=rows.get(row["erasure_id"], {})) for row in found.mappings()
            ]

    def erased_dates(self) -> list[date]:
        """Return the session dates that events were taken out of, oldest first."""
        query = sa.select(ERASED_EVENTS.c.session_date).order_by(ERASED_EVENTS.c.session_date)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))

    def add_rows(self, erasure_id: int, store: str, number: int) -> None:
        """Count rows that were taken out of a store without transactions."""
        with writing(self._engine) as connection:
            add_rows(connection, erasure_id, store, number)


def add_rows(connection: sa.Connection, erasure_id: int, store: str, number: int) -> None:
    """Count rows that are taken out of a store, within the caller's transaction."""
    if number:
        insert = insert_into(connection, ERASED_ROWS)
        row = {"erasure_id": erasure_id, "store": store, "row_count": number}
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[_ROWS.erasure_id, _ROWS.store],
                set_={"row_count": _ROWS.row_count + insert.excluded.row_count},
            ),
            row,
        )
