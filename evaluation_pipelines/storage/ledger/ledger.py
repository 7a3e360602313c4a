"""The ledger: one database for what must change in a transaction; its revision and its clock.

Each feature has stores for its tables that are created from a ``Ledger``. An open ledger may be
used by several threads; other processes open their own.
"""

import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import (
    create_ledger_engine,
    lock_for_migration,
    no_ledger,
    outside_transactions,
    reading,
    writing,
)
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError, UnknownRevisionError
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.storage.ledger.tables.telemetry import LEDGER_IDS

if TYPE_CHECKING:
    from alembic.config import Config

BASELINE_REVISION = "otel_logs"
"""The first revision in ``migrations/versions``: older ledgers are refused."""

NEWEST_REVISION = "transcript_nicknames"
"""The last revision in ``migrations/versions``, known here to avoid importing alembic."""

VERSION_TABLE = "ledger_version"
"""Not alembic's default name: Dagster uses that one, should both share a database."""

_VERSION = sa.Table(
    VERSION_TABLE, sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True)
)
_one_at_a_time = threading.Lock()  # alembic keeps the running migration in module globals


def bring_up_to_date(engine: sa.Engine, *, create: bool = True) -> None:
    """Create the tables or migrate them to the newest revision, in one transaction.

    Raises:
        NoLedgerError: the database holds no ledger and ``create`` is False.
        UnknownRevisionError: the ledger has a revision that this version does not know.
    """
    with reading(engine) as connection:
        stored = stored_revision(connection)
    if stored == NEWEST_REVISION:
        return
    if stored is None and not create:
        raise no_ledger(engine.url)
    with _one_at_a_time, writing(engine) as connection:
        lock_for_migration(connection)
        stored = stored_revision(connection)  # another process may have been faster
        if stored is None:
            _create_tables(connection)
            _VERSION.create(connection)
            connection.execute(sa.insert(_VERSION).values(version_num=NEWEST_REVISION))
            connection.execute(sa.insert(LEDGER_IDS).values(ledger_id=uuid.uuid4().hex))
        elif stored != NEWEST_REVISION:
            _migrate(connection, stored)


def _create_tables(connection: sa.Connection) -> None:
    """Create all tables.

    Indexes name their conditions for SQLite alone: naming PostgreSQL imports its dialect, which
    takes longer than all tables. They hold there as well.
    """
    if connection.dialect.name == "postgresql":
        for index in (index for table in METADATA.tables.values() for index in table.indexes):
            condition = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = condition
    METADATA.create_all(connection, checkfirst=False)


def stored_revision(connection: sa.Connection) -> str | None:
    """Return the revision of the ledger's tables; None for a database without a ledger."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(sa.select(_VERSION.c.version_num))


def _migrate(connection: sa.Connection, stored: str) -> None:
    # Alembic takes long to import, and hardly any opening needs it.
    from alembic import command
    from alembic.script import ScriptDirectory

    config = migration_config(connection)
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if stored not in known:
        url = connection.engine.url.render_as_string(hide_password=True)
        raise UnknownRevisionError(
            f"The ledger {url} has revision {stored}, which this version does not know (it knows "
            f"{BASELINE_REVISION} to {NEWEST_REVISION}): another version of this program wrote it. "
            "If that was a newer one, use it. If it was an older one, open the ledger once with "
            f"the last release that ends with revision {BASELINE_REVISION}, and then with this "
            "one, or set EVAL_DATA_DIR to a new folder and ingest the telemetry again."
        )
    command.upgrade(config, "head")


def migration_config(connection: sa.Connection) -> "Config":
    """Return settings for ``alembic.command``, which then works on ``connection``."""
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


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


_SERVER_TIME = sa.select(sa.func.clock_timestamp(type_=sa.DateTime(timezone=True)))


def shared_time(connection: sa.Connection, now: datetime) -> datetime:
    """Return the time of the database server, or ``now`` for SQLite, which one machine uses."""
    if connection.dialect.name != "postgresql":
        return now
    found: datetime = connection.execute(_SERVER_TIME).scalar_one()
    return found.astimezone(UTC)


def ledger_time(ledger: Ledger, now: datetime | None = None) -> datetime:
    """Return the time of the ledger; with SQLite ``now``, by default that of this machine."""
    now = datetime.now(UTC) if now is None else now
    if ledger.engine.dialect.name != "postgresql":
        return now
    with reading(ledger.engine) as connection:
        return shared_time(connection, now)


_PAUSE_S, _RECLAIM_S = 0.1, 60.0


def reclaim(ledger: Ledger) -> None:
    """Rewrite the files of the ledger, without the bytes of deleted and changed rows.

    SQLite: the database and its write-ahead log. PostgreSQL: all tables, each locked meanwhile; its
    write-ahead log is its own.

    Raises:
        LedgerLockedError: another process kept reading or writing for a minute.
        LedgerError: the ledger cannot be used.
    """
    with outside_transactions(ledger.engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("VACUUM FULL")
            return
        connection.exec_driver_sql("VACUUM")
        deadline = time.monotonic() + _RECLAIM_S
        while _is_busy(connection):
            if time.monotonic() > deadline:
                raise LedgerLockedError(
                    "The write-ahead log of the ledger still has deleted rows: another process has "
                    f"kept a transaction open for {_RECLAIM_S:g} s. End it, and run this again."
                )
            time.sleep(_PAUSE_S)


def _is_busy(connection: sa.Connection) -> bool:
    """Return True if the write-ahead log could not be emptied."""
    return bool(connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0])
