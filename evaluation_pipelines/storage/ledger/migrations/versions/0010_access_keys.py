"""Keys of the service."""

import sqlalchemy as sa
from alembic import op

revision = "access_keys"
down_revision = "judge_batches"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "access_keys",
        sa.Column("key_id", sa.CHAR(12), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organization", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("secret_sha256", sa.CHAR(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name="pk_access_keys"),
    )
    op.create_index(
        "access_keys_one_in_use",
        "access_keys",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
