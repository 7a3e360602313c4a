"""Flags of a score, such as criteria without points or a short analysis."""

import sqlalchemy as sa
from alembic import op

revision = "score_flags"
down_revision = "judge_changes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of older scores they are unknown."""
    flags = ("incomplete_criteria", "short_analysis", "numbers_from_reminder", "estimated_usage")
    for table in ("session_scores", "anchor_scores"):
        for flag in flags:
            op.add_column(table, sa.Column(flag, sa.Boolean(), nullable=True))
