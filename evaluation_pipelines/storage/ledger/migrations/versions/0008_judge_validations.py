"""Validations of judges by labelled sessions."""

import sqlalchemy as sa
from alembic import op

revision = "judge_validations"
down_revision = "score_flags"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "judge_validations",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("prompt_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("set_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), nullable=False),
        sa.Column("completed_at_us", sa.BigInteger(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_at_us", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_judge_validations"),
    )
    op.create_index("judge_validations_by_booking", "judge_validations", ["booked_at_us"])
