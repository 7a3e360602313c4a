"""The baseline: all tables of a ledger, as the releases before left them."""

from alembic import op

from evaluation_pipelines.storage.ledger.migrations import (
    baseline_judging,
    baseline_rest,
    baseline_telemetry,
)
from evaluation_pipelines.storage.ledger.migrations.down import drop_empty

revision = "otel_logs"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables; a new ledger is created from ``storage/ledger/tables`` instead."""
    baseline_telemetry.create_tables()
    baseline_rest.create_tables()
    baseline_judging.create_tables()


def downgrade() -> None:
    """Drop the tables of a ledger without rows; a row of ``ledger_ids`` is only its name."""
    tables = (*baseline_telemetry.TABLES, *baseline_rest.TABLES, *baseline_judging.TABLES)
    drop_empty(op.get_bind(), tables, even_with_rows=("ledger_ids",))
