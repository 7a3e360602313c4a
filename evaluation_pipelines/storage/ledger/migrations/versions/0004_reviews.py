"""Which criterion a person found wrong, and how far each reviewer of the audit sample came."""

import sqlalchemy as sa
from alembic import op

revision = "reviews"
down_revision = "identities"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add column and table; overrides of before name no criterion."""
    op.add_column("overrides", sa.Column("criterion_id", sa.String, nullable=True))
    op.create_table(
        "audit_steps",
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("annotator", sa.String, nullable=False),
        sa.Column("step", sa.String, nullable=False),
        sa.Column("organization_id", sa.String, nullable=True),
        sa.Column("session_key", sa.String, nullable=True),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_audit_steps"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_steps_by_annotator", "audit_steps", ["annotator"])
