"""The tables that a new ledger is created with; later revisions start from here."""

revision = "ledger_id"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: a new ledger is created from ``storage/ledger/tables`` and never migrated."""
