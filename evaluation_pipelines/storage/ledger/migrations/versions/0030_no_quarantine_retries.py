"""A retry replaces what a batch has in quarantine: results of single lines are not kept."""

import sqlalchemy as sa
from alembic import op

revision = "no_quarantine_retries"
down_revision = "validations_are_scorings"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the results: the next retry leaves out what can be read."""
    op.drop_table("quarantine_retries")


def downgrade() -> None:
    """Nothing was retried."""
    op.create_table(
        "quarantine_retries",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("record_index", sa.Integer(), nullable=False),
        sa.Column("retried_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_quarantine_retries_file_id"
        ),
        sa.PrimaryKeyConstraint("file_id", "offset", "record_index", name="pk_quarantine_retries"),
    )
