"""The outcome that a judge names, and whether it allowed the total."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.errors import LedgerError

revision = "judge_outcomes"
down_revision = "experiments"
branch_labels = None
depends_on = None

_SCORINGS = ("session_scores", "anchor_scores")


def upgrade() -> None:
    """Add the columns: null in scores of rubrics that asked for none."""
    for table in _SCORINGS:
        op.add_column(table, sa.Column("outcome", sa.String(), nullable=True))
        op.add_column(table, sa.Column("outside_ceiling", sa.Boolean(), nullable=True))


def downgrade() -> None:
    """Refuse to lose what a judge said of outcomes: asking again costs money."""
    for table in _SCORINGS:
        if op.get_bind().scalar(sa.text(f"SELECT count(outcome) FROM {table}")):  # noqa: S608
            raise LedgerError(f"{table} has outcomes: they would be lost.")
        op.drop_column(table, "outside_ceiling")
        op.drop_column(table, "outcome")
