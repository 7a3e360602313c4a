"""Files that were read to their end and have not changed since: they need not be opened."""

import sqlalchemy as sa
from alembic import op

revision = "unchanged_files"
down_revision = "service_events"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the time of change; each file is opened once more."""
    op.add_column("source_files", sa.Column("changed_at_ns", sa.BigInteger(), nullable=True))
    op.create_index("source_files_by_inode", "source_files", ["inode"])
