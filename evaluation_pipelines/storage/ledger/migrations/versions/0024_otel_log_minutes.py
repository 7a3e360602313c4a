"""Rows of ``otel_logs`` are counted by minute, no longer by day."""

from datetime import date, timedelta

import sqlalchemy as sa
from alembic import op

revision = "otel_log_minutes"
down_revision = "score_requests"
branch_labels = None
depends_on = None

_FIRST_DAY, _MINUTES_PER_DAY = date(1970, 1, 1), 24 * 60
_DAYS = sa.table(
    "otel_log_days",
    sa.column("source", sa.String),
    sa.column("day", sa.Date),
    sa.column("row_count", sa.BigInteger),
)
_MINUTES = sa.table(
    "otel_log_minutes",
    sa.column("source", sa.String),
    sa.column("minute", sa.BigInteger),
    sa.column("row_count", sa.BigInteger),
)


def upgrade() -> None:
    """File the rows of a day under its first minute: days are compared as a whole."""
    op.create_table(
        "otel_log_minutes",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "minute", name="pk_otel_log_minutes"),
    )
    for source, day, rows in op.get_bind().execute(sa.select(_DAYS)).all():
        minute = (day - _FIRST_DAY).days * _MINUTES_PER_DAY
        op.execute(sa.insert(_MINUTES).values(source=source, minute=minute, row_count=rows))
    op.drop_table("otel_log_days")


def downgrade() -> None:
    """Count by day again."""
    op.create_table(
        "otel_log_days",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "day", name="pk_otel_log_days"),
    )
    days: dict[tuple[str, date], int] = {}
    for source, minute, rows in op.get_bind().execute(sa.select(_MINUTES)).all():
        day = source, _FIRST_DAY + timedelta(days=minute // _MINUTES_PER_DAY)
        days[day] = days.get(day, 0) + rows
    for (source, counted_day), rows in days.items():
        op.execute(sa.insert(_DAYS).values(source=source, day=counted_day, row_count=rows))
    op.drop_table("otel_log_minutes")
