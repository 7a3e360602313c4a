"""The level that each look at predictions spent."""

import sqlalchemy as sa
from alembic import op

revision = "look_levels"
down_revision = "transcript_contexts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column: look ``k`` spent ``0.05 / (k (k + 1))``. Looks at gates stay null."""
    op.add_column("gate_looks", sa.Column("level", sa.Float(), nullable=True))
    # The runs of gates are hashes: only looks at predictions have a space, "outcome step".
    op.execute("UPDATE gate_looks SET level = 0.05 / (look * (look + 1)) WHERE runs LIKE '% %'")


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("gate_looks", "level")
