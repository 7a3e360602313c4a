"""What became of quarantined lines that were read again."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "quarantine_retries",
        sa.Column("file_id", sa.String, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("record_index", sa.Integer, nullable=False),
        sa.Column("retried_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String, nullable=True),
        sa.PrimaryKeyConstraint("file_id", "offset", "record_index", name="pk_quarantine_retries"),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_quarantine_retries_file_id"
        ),
    )


def downgrade() -> None:
    """Drop the table: what was resolved counts as unreadable again, and would be stored twice."""
    op.drop_table("quarantine_retries")
