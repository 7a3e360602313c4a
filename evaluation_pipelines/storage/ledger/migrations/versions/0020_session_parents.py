"""The session under which those of a sub-agent are filed."""

import sqlalchemy as sa
from alembic import op

revision = "session_parents"
down_revision = "replaced_times"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("session_index", sa.Column("parent_session_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("session_index", "parent_session_id")
