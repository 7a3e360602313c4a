"""Who asked for a scoring."""

import sqlalchemy as sa
from alembic import op

revision = "score_requests"
down_revision = "session_parents"
branch_labels = None
depends_on = None

_TABLES = ("session_scores", "anchor_scores")


def upgrade() -> None:
    """Add the column: a run began its scorings as it created them, requests waited."""
    for table in _TABLES:
        op.add_column(table, sa.Column("requested_by", sa.String(), nullable=True))
    op.execute(
        "UPDATE session_scores SET requested_by = score_triggered_by "
        "WHERE started_at_us IS NULL OR started_at_us > scored_at_us"
    )


def downgrade() -> None:
    """Drop the column."""
    for table in _TABLES:
        op.drop_column(table, "requested_by")
