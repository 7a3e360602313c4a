"""The baseline: ledgers of this revision exist, and new ones have the tables in the code."""

from evaluation_pipelines.storage.ledger.errors import UnknownRevisionError

revision = "otel_logs"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Refuse a ledger without a revision: new ones are created with all tables at once."""
    raise UnknownRevisionError(
        "The database has no revision of a ledger. Name an empty one: its tables are then created."
    )


def downgrade() -> None:
    """Refuse: an earlier revision would have no place for what the ledger has."""
    raise UnknownRevisionError(
        "The ledger has the first revision that this program knows: nothing was changed. Restore a "
        "backup to go back further."
    )
