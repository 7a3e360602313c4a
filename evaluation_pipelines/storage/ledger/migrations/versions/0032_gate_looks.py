"""How often a gate looked at two arms."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.errors import LedgerError

revision = "gate_looks"
down_revision = "traces"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "gate_looks",
        sa.Column("gate", sa.String(), nullable=False),
        sa.Column("look", sa.Integer(), nullable=False),
        sa.Column("runs", sa.String(), nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("gate", "look", name="pk_gate_looks"),
    )


def downgrade() -> None:
    """Refuse to forget looks: otherwise a gate counts its next look as its first."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM gate_looks")):
        raise LedgerError("gate_looks has rows: a gate would count its looks from 1 again.")
    op.drop_table("gate_looks")
