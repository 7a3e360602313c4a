"""Checksums of parts; parts from before have none and are not verified."""

import sqlalchemy as sa
from alembic import op

revision = "checksums"
down_revision = "initial"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("parts", sa.Column("sha256", sa.String, nullable=True))
