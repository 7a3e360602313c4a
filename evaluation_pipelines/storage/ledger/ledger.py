"""The ledger: one database for what must change in a transaction.

Each feature has stores for its tables that are created from a ``Ledger``. An open ledger may be
used by several threads; other processes open their own.
"""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import create_ledger_engine
from evaluation_pipelines.storage.ledger.revision import bring_up_to_date


@dataclass(frozen=True, slots=True)
class Ledger:
    """An open ledger.

    With ``as_of`` stores return what had been made by then, and must not be written.
    """

    engine: sa.Engine
    as_of: datetime | None = None

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_ledger(
    url: str,
    lock_timeout: float = 60.0,
    *,
    create: bool = True,
    is_known: bool = False,
    is_served: bool = False,
) -> Ledger:
    """Open a ledger; create or migrate its tables if needed.

    Args:
        url: ``sqlite:///path/to/file`` (the folder is created) or a PostgreSQL URL.
        lock_timeout: Seconds to wait for other writers, here and in every operation.
        create: Whether to create a missing ledger.
        is_known: True if another process has used it just now: a server that is away is waited for.
        is_served: True if people wait for answers: once it is open, a server that is away is an
            error within seconds.

    Raises:
        LedgerUrlError: the URL names no database that can hold a ledger.
        NoLedgerError: there is none and ``create`` is False.
        UnknownRevisionError: another version of this program wrote it.
        LedgerNotWritableError: its folder or file cannot be created or written.
        NotALedgerError: the file is not a database.
        LedgerLockedError: another process kept it locked for too long.
        LedgerDiskFullError: no space left.
    """
    engine = create_ledger_engine(url, lock_timeout, create=create, is_known=is_known)
    try:
        bring_up_to_date(engine, create=create)
    except BaseException:
        engine.dispose()
        raise
    if is_served:
        engine.dispose()
        engine = create_ledger_engine(url, lock_timeout, is_served=True)
    return Ledger(engine)
