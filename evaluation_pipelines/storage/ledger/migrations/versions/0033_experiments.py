"""Experiments as they were planned."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.errors import LedgerError

revision = "experiments"
down_revision = "gate_looks"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "experiments",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("plan", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_experiments"),
    )


def downgrade() -> None:
    """Refuse to lose plans: nothing else has the keys of their assignments."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM experiments")):
        raise LedgerError("experiments has rows: their plans and keys would be lost.")
    op.drop_table("experiments")
