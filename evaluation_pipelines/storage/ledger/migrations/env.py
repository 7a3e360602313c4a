"""Environment of alembic commands: use the transaction that the caller opened."""

from alembic import context

from evaluation_pipelines.storage.ledger.ledger import VERSION_TABLE
from evaluation_pipelines.storage.ledger.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
