"""Outcomes that come after a session, and the dates they change."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.errors import LedgerError

revision = "outcomes"
down_revision = "evaluations_out"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "late_outcomes",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("lines", sa.BigInteger(), nullable=True),
        sa.Column("inferred", sa.Boolean(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(
            *("organization_id", "session_id", "session_key", "kind", "source", "reference"),
            name="pk_late_outcomes",
        ),
    )
    op.create_index("late_outcomes_by_session", "late_outcomes", ["session_id"])
    op.create_table(
        "outcome_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_outcome_dates"),
    )


def downgrade() -> None:
    """Refuse to lose outcomes from outside: nothing makes them again."""
    query = "SELECT count(*) FROM late_outcomes WHERE source = 'outside'"
    if op.get_bind().scalar(sa.text(query)):
        raise LedgerError("late_outcomes has rows from outside: they would be lost.")
    op.drop_table("outcome_dates")
    op.drop_index("late_outcomes_by_session", "late_outcomes")
    op.drop_table("late_outcomes")
