"""Runs alembic without any file of settings; imported only when there is something to migrate."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from evaluation_pipelines.adapters.ledger.errors import LedgerTooNewError


def migrate_to_newest(connection: sa.Connection, revision: str | None) -> None:
    """Bring the tables from ``revision`` to the newest one, within the caller's transaction.

    Raises:
        LedgerTooNewError: this version of the program does not know the revision.
    """
    config = migration_config(connection)
    scripts = ScriptDirectory.from_config(config)
    if revision not in {None, *(script.revision for script in scripts.walk_revisions())}:
        raise LedgerTooNewError(
            f"The ledger {connection.engine.url.render_as_string(hide_password=True)} has revision "
            f"{revision}, this version knows only up to {scripts.get_current_head()}. "
            "Upgrade this program, or name another ledger."
        )
    command.upgrade(config, "head")


def migration_config(connection: sa.Connection) -> Config:
    """Settings for ``alembic.command``, which then works on the given connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
