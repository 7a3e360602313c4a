"""A ledger of the baseline: the program opens it, and makes new ones from the code."""

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import (
    BASELINE_REVISION,
    VERSION_TABLE,
    migration_config,
)
from evaluation_pipelines_tests.storage.ledger.baseline import judging, rest, telemetry


def make_baseline(engine: sa.Engine) -> None:
    """Create the tables of the baseline in an empty database."""
    with writing(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        with Operations.context(context):
            for tables in (telemetry, rest, judging):
                tables.create_tables()
        context.stamp(ScriptDirectory.from_config(migration_config(connection)), BASELINE_REVISION)
