"""Batches of judge requests at a provider."""

import sqlalchemy as sa
from alembic import op

revision = "judge_batches"
down_revision = "judge_validations"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "judge_batches",
        sa.Column("batch_id", sa.String(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("input_file_id", sa.String(), nullable=True),
        sa.Column("provider_batch_id", sa.String(), nullable=True),
        sa.Column("provider_status", sa.String(), nullable=True),
        sa.Column("output_file_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("completed_requests", sa.Integer(), nullable=False),
        sa.Column("failed_requests", sa.Integer(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.Column("submitting_at_us", sa.BigInteger(), nullable=True),
        sa.Column("polled_at_us", sa.BigInteger(), nullable=True),
        sa.Column("expected_by_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_us", sa.BigInteger(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_expires_at_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", name="pk_judge_batches"),
    )
    op.create_index("judge_batches_by_state", "judge_batches", ["state"])
