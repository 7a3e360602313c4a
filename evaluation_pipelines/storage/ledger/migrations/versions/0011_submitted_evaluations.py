"""What programs send in: evaluations of agents, judge profiles, and who recorded an override."""

import sqlalchemy as sa
from alembic import op

from evaluation_pipelines.storage.ledger.tables.columns import UtcTime

revision = "submitted_evaluations"
down_revision = "access_keys"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the columns; older profiles come from files."""
    op.add_column(
        "judge_profiles", sa.Column("origin", sa.String(), nullable=False, server_default="file")
    )
    op.add_column("overrides", sa.Column("recorded_by", sa.String(), nullable=True))
    op.create_table(
        "submitted_evaluations",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("evaluation_id", sa.String(), nullable=False),
        sa.Column("evaluated_at", UtcTime(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("latency_ms", sa.Float(), nullable=True),
        sa.Column("latency_budget_ms", sa.Float(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("submitted_by", sa.String(), nullable=False),
        sa.Column("submitted_at", UtcTime(), nullable=False),
        sa.Column("loaded_into", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint(
            "organization_id", "agent_id", "evaluation_id", name="pk_submitted_evaluations"
        ),
    )
    op.create_index(
        "submitted_evaluations_by_time",
        "submitted_evaluations",
        ["organization_id", "agent_id", "evaluated_at"],
    )
    op.create_index("submitted_evaluations_by_load", "submitted_evaluations", ["loaded_into"])
