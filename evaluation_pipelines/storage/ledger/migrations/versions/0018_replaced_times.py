"""Counts of times that were replaced, by what replaced them."""

import sqlalchemy as sa
from alembic import op

revision = "replaced_times"
down_revision = "otel_logs"
branch_labels = None
depends_on = None

_COUNTS = ("times_observed", "times_of_ingest")


def upgrade() -> None:
    """Add the counts; for what was read before they are 0."""
    for name in _COUNTS:
        op.add_column(
            "ingest_batches",
            sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        )


def downgrade() -> None:
    """Drop the counts."""
    for name in _COUNTS:
        op.drop_column("ingest_batches", name)
