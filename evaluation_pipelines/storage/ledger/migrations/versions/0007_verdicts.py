"""Remarks on a score, such as criteria without points or a short analysis."""

import sqlalchemy as sa
from alembic import op

revision = "score_flags"
down_revision = "judge_changes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; older scores have no remarks."""
    for table in ("session_scores", "anchor_scores"):
        op.add_column(table, sa.Column("flags", sa.JSON(none_as_null=True), nullable=True))
