"""Outgoing evaluations: outbox, receivers and refusals."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.errors import LedgerError

revision = "evaluations_out"
down_revision = "judge_outcomes"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "evaluation_outbox",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("marks", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "session_key", name="pk_evaluation_outbox"),
        sa.UniqueConstraint("position", name="uq_evaluation_outbox_position"),
    )
    op.create_index("evaluation_outbox_by_date", "evaluation_outbox", ["session_date"])
    op.create_table(
        "evaluation_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("files_hash", sa.CHAR(64), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_evaluation_dates"),
    )
    op.create_table(
        "evaluation_receivers",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("address_hash", sa.CHAR(64), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failing_since", _TIME, nullable=True),
        sa.Column("next_try_at", _TIME, nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_evaluation_receivers"),
    )
    op.create_table(
        "evaluation_refusals",
        sa.Column("receiver", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("refused_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint(
            "receiver", "organization_id", "session_key", name="pk_evaluation_refusals"
        ),
    )


def downgrade() -> None:
    """Refuse to lose positions: receivers would get everything again."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM evaluation_receivers")):
        raise LedgerError("evaluation_receivers has rows: all evaluations would be sent again.")
    for name in ("refusals", "receivers", "dates", "outbox"):
        op.drop_table(f"evaluation_{name}")
