"""Why the end of a compressed file is missing: it was an entry of the quarantine before."""

import sqlalchemy as sa
from alembic import op

revision = "unfinished"
down_revision = "ledger_id"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; entries of before stay in the quarantine."""
    op.add_column("source_files", sa.Column("unfinished", sa.String, nullable=True))
