"""Missing tools are counted: no model is asked for their order."""

import sqlalchemy as sa
from alembic import op

revision = "no_tool_priorities"
down_revision = "one_judge"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop what models said; the counts are in the lake."""
    op.drop_table("tool_priorities")


def downgrade() -> None:
    """Begin without any answer."""
    op.create_table(
        "tool_priorities",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("period_start", sa.Date(), nullable=False),
        sa.Column("period_end", sa.Date(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("asked_at_us", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("judge_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint(
            "organization_id", "period_start", "period_end", name="pk_tool_priorities"
        ),
    )
    op.create_index("tool_priorities_by_time", "tool_priorities", ["asked_at_us"])
