"""Schema revision of the ledger: create the tables, or migrate them to the newest revision."""

import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import (
    lock_for_migration,
    no_ledger,
    reading,
    writing,
)
from evaluation_pipelines.storage.ledger.errors import UnknownRevisionError
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.storage.ledger.tables.telemetry import LEDGER_IDS

if TYPE_CHECKING:
    from alembic.config import Config

BASELINE_REVISION = "otel_logs"
"""The first revision in ``migrations/versions``: older ledgers are refused."""

NEWEST_REVISION = "one_lock"
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
        for index in (each for table in METADATA.tables.values() for each in table.indexes):
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
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    if stored not in known:
        url = connection.engine.url.render_as_string(hide_password=True)
        raise UnknownRevisionError(
            f"The ledger {url} has revision {stored}, which this version does not know (its oldest "
            f"is {BASELINE_REVISION}, its newest {NEWEST_REVISION}): another version of this "
            "program wrote it. If that was a newer one, use it. If it was an older one, open the "
            f"ledger once with the last release whose newest revision is {BASELINE_REVISION}, and "
            "then with this one; or set EVAL_DATA_DIR to a new folder and ingest the telemetry "
            "again."
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
