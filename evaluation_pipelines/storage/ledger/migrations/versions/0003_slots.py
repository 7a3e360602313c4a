"""All tables of the lake in the manifest; dates built before are built again into new parts."""

import sqlalchemy as sa
from alembic import op

revision = "slots"
down_revision = "checksums"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every date due as well: the manifest names none of its tables yet."""
    op.add_column("parts", sa.Column("slot", sa.String, nullable=True))
    op.create_index("parts_by_superseded", "parts", ["superseded_at"])
    op.create_table(
        "published_databases",
        sa.Column("file", sa.String, nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("file", name="pk_published_databases"),
    )
    op.execute(
        "update touched_dates set version = version + 1, attempts = 0, parked = false, "
        "next_attempt_at = null"
    )
