"""Sessions named by spans: the deciding span, and a flag for events that may have to move."""

import sqlalchemy as sa
from alembic import op

revision = "traces"
down_revision = "no_quarantine_retries"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns: work of sub-agents that stayed on another date is filed once more."""
    op.add_column("session_index", sa.Column("named_by", sa.String(), nullable=True))
    op.add_column(
        "session_index",
        sa.Column("unfiled", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.execute("UPDATE session_index SET unfiled = true WHERE parent_session_id IS NOT NULL")
    op.create_index("session_index_by_unfiled", "session_index", ["unfiled"])
    # Null: read before spans were.
    op.add_column("ingest_batches", sa.Column("spans", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop the columns. Events of spans stay."""
    op.drop_column("ingest_batches", "spans")
    op.drop_index("session_index_by_unfiled", "session_index")
    op.drop_column("session_index", "unfiled")
    op.drop_column("session_index", "named_by")
