"""One judge at a time: no lease of a scoring or batch, and requests that wait for the judge."""

import sqlalchemy as sa
from alembic import op

revision = "one_judge"
down_revision = "one_lock"
branch_labels = None
depends_on = None

_SCORES = ("session_scores", "anchor_scores")
_BOOKING = ["booked_at_us", "score_id", "booked_cost_usd", "reserved_cost_usd"]


def upgrade() -> None:
    """Let scorings name the batch that they wait in; the next judge takes up all others."""
    for table in _SCORES:
        op.drop_index(f"{table}_by_booking", table)
        op.add_column(table, sa.Column("batch_id", sa.String(), nullable=True))
        op.add_column(table, sa.Column("endpoint", sa.String(), nullable=True))
        op.add_column(table, sa.Column("next_try_at_us", sa.BigInteger(), nullable=True))
        op.add_column(
            table, sa.Column("waits", sa.Integer(), nullable=False, server_default=sa.text("0"))
        )
        op.execute(
            f"UPDATE {table} SET batch_id = substr(lease_owner, 7)"  # noqa: S608 - fixed names
            " WHERE lease_owner LIKE 'batch:%'"
        )
        op.execute(f"ALTER TABLE {table} RENAME COLUMN takeovers TO crashes")
        for name in ("lease_owner", "lease_expires_at_us"):
            op.drop_column(table, name)
        op.create_index(f"{table}_by_booking", table, _BOOKING)
    for name in ("lease_owner", "lease_expires_at_us"):
        op.drop_column("judge_batches", name)


def downgrade() -> None:
    """Lease what waits in a batch to it for ninety days, as before."""
    for table in (*_SCORES, "judge_batches"):
        op.add_column(table, sa.Column("lease_owner", sa.String(), nullable=True))
        op.add_column(table, sa.Column("lease_expires_at_us", sa.BigInteger(), nullable=True))
    for table in _SCORES:
        op.drop_index(f"{table}_by_booking", table)
        op.execute(
            f"UPDATE {table} SET lease_owner = 'batch:' || batch_id,"  # noqa: S608 - fixed names
            " lease_expires_at_us = started_at_us + 7776000000000 WHERE batch_id IS NOT NULL"
        )
        op.execute(f"ALTER TABLE {table} RENAME COLUMN crashes TO takeovers")
        for name in ("batch_id", "endpoint", "next_try_at_us", "waits"):
            op.drop_column(table, name)
        op.create_index(f"{table}_by_booking", table, [*_BOOKING, "lease_expires_at_us"])
