"""Money that is set aside for scorings and not asked for yet, apart from what is spent."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INDEX, _TABLE = "session_scores_by_booking", "session_scores"


def upgrade() -> None:
    """Add the column, and let the index hold all that the sum of a day needs."""
    op.add_column(_TABLE, sa.Column("reserved_cost_usd", sa.Double, nullable=True))
    op.drop_index(_INDEX, _TABLE)
    summed = ["booked_at_us", "score_id", "booked_cost_usd", "reserved_cost_usd"]
    op.create_index(_INDEX, _TABLE, [*summed, "lease_expires_at_us"])


def downgrade() -> None:
    """Drop the column: what is set aside at this moment is forgotten, what is booked stays."""
    op.drop_index(_INDEX, _TABLE)
    op.create_index(_INDEX, _TABLE, ["booked_at_us"])
    op.drop_column(_TABLE, "reserved_cost_usd")
