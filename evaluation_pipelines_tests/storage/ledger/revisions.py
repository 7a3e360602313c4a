"""Revisions of a ledger: how its tables differ from the code, and another revision."""

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import VERSION_TABLE
from evaluation_pipelines.storage.ledger.tables import METADATA


def set_revision(engine: sa.Engine, revision: str) -> None:
    """Mark the ledger with a revision."""
    with writing(engine) as connection:
        version = sa.table(VERSION_TABLE, sa.column("version_num"))
        connection.execute(sa.update(version).values(version_num=revision))


def differences(engine: sa.Engine) -> list[object]:
    """What alembic would change to get from the migrated tables to the ones in the code."""
    with reading(engine) as connection:
        options = {"compare_type": True, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, METADATA))
