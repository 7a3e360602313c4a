"""With which probability a session was drawn for review, and from which stratum."""

import sqlalchemy as sa
from alembic import op

revision = "audit_probabilities"
down_revision = "reviews"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; how many sessions a date had when its sample was drawn is not stored."""
    for name, kind in (
        ("profile_version", sa.Integer),
        ("classification_label", sa.String),
        ("model", sa.String),
        ("inclusion_probability", sa.Float),
    ):
        op.add_column("audit_samples", sa.Column(name, kind, nullable=True))
