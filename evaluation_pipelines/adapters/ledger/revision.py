"""Which revision of its tables a ledger has, and that it gets the newest one."""

import threading

import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.engine import (
    lock_for_migration,
    no_ledger,
    reading,
    writing,
)

NEWEST_REVISION = "0007"
"""The last revision in ``migrations/versions``, known here to spare the import of alembic."""

VERSION_TABLE = "ledger_version"
"""Not alembic's default name: that one is Dagster's, should both share a database."""

_one_at_a_time = threading.Lock()  # alembic keeps the running migration in module globals


def bring_up_to_date(engine: sa.Engine, *, create: bool = True) -> None:
    """Migrate to the newest revision, in one transaction; one look is all if it is there already.

    Raises:
        NoLedgerError: the database holds no ledger and none is to be made.
        LedgerTooNewError: the ledger has a revision that this version does not know.
    """
    with reading(engine) as connection:
        stored = stored_revision(connection)
    if stored == NEWEST_REVISION:
        return
    if stored is None and not create:
        raise no_ledger(engine.url)
    # alembic takes long to import, and hardly any opening needs it.
    from evaluation_pipelines.adapters.ledger.migrations.run import (
        migrate_to_newest,
    )

    with _one_at_a_time, writing(engine) as connection:
        lock_for_migration(connection)
        revision = stored_revision(connection)
        if revision != NEWEST_REVISION:
            migrate_to_newest(connection, revision)


def stored_revision(connection: sa.Connection) -> str | None:
    """The revision of the ledger's tables; None for a ledger without any."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))
    return connection.scalar(sa.select(version.c.version_num))
