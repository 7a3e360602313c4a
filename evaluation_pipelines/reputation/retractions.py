"""Signals and evaluations of other systems that were taken back, for good."""

import json
from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.reputation.domain.external_signals import Retraction
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.people import RETRACTIONS

_ROW = RETRACTIONS.c


class Retractions:
    """Operations on ``retractions``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine, self._as_of = ledger.engine, ledger.as_of

    def of(self, table: Table) -> set[Retraction]:
        """Return what was taken back of a table."""
        query = sa.select(RETRACTIONS).where(_ROW.table_name == table.name)
        if self._as_of is not None:
            query = query.where(_ROW.retracted_at <= self._as_of)
        with reading(self._engine) as connection:
            return {_retraction(row.id, row.owner) for row in connection.execute(query)}

    def add(self, table: Table, retractions: Iterable[Retraction], now: datetime) -> None:
        """Take signals or evaluations back; those that were already stay so."""
        rows = [
            {
                "table_name": table.name,
                "id": each.id,
                "owner": json.dumps(each.owner),
                "retracted_at": now,
            }
            for each in retractions
        ]
        if rows:
            with writing(self._engine) as connection:
                insert = insert_into(connection, RETRACTIONS)
                connection.execute(insert.on_conflict_do_nothing(), rows)


def _retraction(row_id: str, owner: str) -> Retraction:
    names = json.loads(owner)
    return Retraction(row_id, None if names is None else tuple(names))
