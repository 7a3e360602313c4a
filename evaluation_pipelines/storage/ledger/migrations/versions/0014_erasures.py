"""What was forgotten and what has expired: erasures, keyed hashes, counts, dates."""

import sqlalchemy as sa
from alembic import op

revision = "erasures"
down_revision = "unchanged_files"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "erasures",
        sa.Column("erasure_id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("erasure_id", name="pk_erasures"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "erased_rows",
        sa.Column("erasure_id", sa.Integer(), nullable=False),
        sa.Column("store", sa.String(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", "store", name="pk_erased_rows"),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.erasure_id"], name="fk_erased_rows_erasure_id"
        ),
    )
    op.create_table(
        "forgotten",
        sa.Column("hash", sa.CHAR(32), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("erasure_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_forgotten"),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.erasure_id"], name="fk_forgotten_erasure_id"
        ),
    )
    op.create_table(
        "erased_events",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_erased_events"),
    )
    op.create_table(
        "expired_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("expired_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_expired_dates"),
    )
    op.add_column(
        "ingest_batches",
        sa.Column("forgotten", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
