"""A profile says itself until when it is frozen: the column that was set by hand is not read."""

import sqlalchemy as sa
from alembic import op

revision = "no_frozen_profiles"
down_revision = "no_tool_priorities"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the column."""
    op.drop_column("judge_profiles", "frozen_until")


def downgrade() -> None:
    """Freeze no profile."""
    op.add_column(
        "judge_profiles", sa.Column("frozen_until", sa.DateTime(timezone=True), nullable=True)
    )
