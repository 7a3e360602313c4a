"""One lock in place of leases of files and of steps: who holds it, and no number of a lease."""

import sqlalchemy as sa
from alembic import op

revision = "one_lock"
down_revision = "otel_log_minutes"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Drop the leases, which count only while a process of the older version runs."""
    op.drop_table("leases")
    for name in ("lease_owner", "lease_until", "lease_epoch"):
        op.drop_column("source_files", name)
    op.create_table(
        "holders",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("process_id", sa.BigInteger(), nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("last_progress_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_holders"),
    )


def downgrade() -> None:
    """Restart the numbers of leases: each part has a random number in its name as well."""
    op.drop_table("holders")
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("until", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.add_column("source_files", sa.Column("lease_owner", sa.String(), nullable=True))
    op.add_column("source_files", sa.Column("lease_until", _TIME, nullable=True))
    op.add_column(
        "source_files",
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
