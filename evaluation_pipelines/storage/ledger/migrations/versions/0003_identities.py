"""Who is who: sessions of before have no person until their dates are built again."""

import sqlalchemy as sa
from alembic import op

revision = "identities"
down_revision = "unfinished"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "identities",
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("content_hash", sa.CHAR(64), nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_identities"),
        sqlite_autoincrement=True,
    )
