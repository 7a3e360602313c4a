"""The baseline: ledgers of this revision exist, and new ones have the tables in the code."""

revision = "otel_logs"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Refuse: nothing makes a ledger of this revision any more."""
    raise NotImplementedError("a new ledger is created from storage/ledger/tables")


def downgrade() -> None:
    """Refuse: an earlier revision would have no place for what the ledger has."""
    raise NotImplementedError("no earlier revision is known")
