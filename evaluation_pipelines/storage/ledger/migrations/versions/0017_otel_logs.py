"""Reads of ``otel_logs`` of ClickHouse: positions, and rows that may be met again."""

import sqlalchemy as sa
from alembic import op

revision = "otel_logs"
down_revision = "leases"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "otel_log_reads",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("position_ns", sa.BigInteger(), nullable=False),
        sa.Column("first_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("row_hashes", sa.LargeBinary(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("source", "number", name="pk_otel_log_reads"),
    )
    op.create_table(
        "otel_log_days",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "day", name="pk_otel_log_days"),
    )
