"""The way back to an earlier revision: only what holds no rows is dropped."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.errors import LedgerError


class LedgerHasRowsError(LedgerError):
    """An earlier revision has no place for rows of the ledger."""


def drop_empty(
    connection: sa.Connection, tables: Sequence[str], even_with_rows: Collection[str] = ()
) -> None:
    """Drop tables, the last one first.

    Raises:
        LedgerHasRowsError: One of them holds rows that would be lost; nothing is dropped.
    """
    found = [each for each in tables if each not in even_with_rows and _has_rows(connection, each)]
    if found:
        raise LedgerHasRowsError(
            f"The ledger keeps its revision: an earlier one has no place for the rows of "
            f"{', '.join(found)}. Copy what you need of them, and delete the rows first."
        )
    for name in reversed(tables):
        sa.Table(name, sa.MetaData()).drop(connection)


def _has_rows(connection: sa.Connection, name: str) -> bool:
    rows = sa.select(sa.literal(1)).select_from(sa.table(name)).limit(1)
    return connection.scalar(rows) is not None
