"""The cost of validations counts with their scorings: what they booked themselves is not read.

What they cost on the day of the upgrade does not count against the budget of that day.
"""

import sqlalchemy as sa
from alembic import op

revision = "validations_are_scorings"
down_revision = "no_frozen_profiles"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the columns and their index."""
    op.drop_index("judge_validations_by_booking", "judge_validations")
    op.drop_column("judge_validations", "booked_cost_usd")
    op.drop_column("judge_validations", "booked_at_us")


def downgrade() -> None:
    """Book nothing."""
    booked_at = sa.Column("booked_at_us", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("judge_validations", booked_at)
    op.add_column("judge_validations", sa.Column("booked_cost_usd", sa.Double(), nullable=True))
    op.create_index("judge_validations_by_booking", "judge_validations", ["booked_at_us"])
