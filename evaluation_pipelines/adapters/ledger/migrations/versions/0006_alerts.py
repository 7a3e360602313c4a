"""Which alerts were raised, told, and are over."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_IS_OPEN = sa.text("over_at IS NULL")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("cause", sa.String, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("over_at", sa.DateTime(timezone=True), nullable=True),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "alerts_one_open",
        "alerts",
        ["kind", "cause"],
        unique=True,
        sqlite_where=_IS_OPEN,
        postgresql_where=_IS_OPEN,
    )


def downgrade() -> None:
    """Drop the table: what was told is told again."""
    op.drop_table("alerts")
