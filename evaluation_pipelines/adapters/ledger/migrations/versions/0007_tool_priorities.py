"""What a model says of missing tools: which to do something about first."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "tool_priorities",
        sa.Column("organization_id", sa.String, nullable=False),
        sa.Column("period_start", sa.Date, nullable=False),
        sa.Column("period_end", sa.Date, nullable=False),
        sa.Column("judge_model", sa.String, nullable=False),
        sa.Column("asked_at_us", sa.BigInteger, nullable=False),
        sa.Column("answer", sa.Text, nullable=True),
        sa.Column("error_message", sa.Text, nullable=True),
        sa.Column("input_tokens", sa.BigInteger, nullable=True),
        sa.Column("cached_tokens", sa.BigInteger, nullable=True),
        sa.Column("output_tokens", sa.BigInteger, nullable=True),
        sa.Column("judge_cost_usd", sa.Double, nullable=True),
        sa.Column("booked_cost_usd", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint(
            "organization_id", "period_start", "period_end", name="pk_tool_priorities"
        ),
    )
    op.create_index("tool_priorities_by_time", "tool_priorities", ["asked_at_us"])


def downgrade() -> None:
    """Drop the table: what it cost is forgotten, and the model may be asked again."""
    op.drop_table("tool_priorities")
