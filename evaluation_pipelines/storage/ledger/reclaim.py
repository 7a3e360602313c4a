"""Bytes of deleted rows: SQLite and PostgreSQL keep them until their files are written anew."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import outside_transactions
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.ledger.ledger import Ledger

_PAUSE_S = 0.1


def reclaim(
    ledger: Ledger, patience_s: float = 60.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Write the files of the ledger anew, without the bytes of deleted and changed rows.

    SQLite: the database and its write-ahead log. PostgreSQL: all tables, each locked meanwhile; its
    write-ahead log is its own.

    Raises:
        LedgerLockedError: another process kept reading or writing for ``patience_s`` seconds.
        LedgerError: the ledger cannot be used.
    """
    with outside_transactions(ledger.engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("VACUUM FULL")
            return
        connection.exec_driver_sql("VACUUM")
        waited_s = 0.0
        while _is_busy(connection):
            if waited_s >= patience_s:
                raise LedgerLockedError(
                    "The write-ahead log of the ledger still has deleted rows: another process has "
                    f"kept a transaction open for {patience_s:g} s. End it, and run this again."
                )
            sleep(_PAUSE_S)
            waited_s += _PAUSE_S


def _is_busy(connection: sa.Connection) -> bool:
    """Return True if the write-ahead log could not be emptied."""
    return bool(connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0])
