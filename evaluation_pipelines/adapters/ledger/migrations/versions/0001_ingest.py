"""Tables of ingest: source files, manifest, session index, touched dates and books."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_COUNTERS = (
    "bytes",
    "lines",
    "events",
    "unattributed",
    "quarantined",
    "unknown_records",
    "skipped",
    "attribution_lines",
    "repeated_records",
    "time_anomalies",
    "value_anomalies",
    "out_of_range",
)


def upgrade() -> None:
    """Create the tables."""
    _create_files_and_parts()
    _create_sessions_and_dates()
    _create_books()


def downgrade() -> None:
    """Drop the tables with all that is in them."""
    for table in (
        "ingest_names",
        "ingest_batches",
        "touched_dates",
        "session_index",
        "parts",
        "source_files",
    ):
        op.drop_table(table)


def _create_files_and_parts() -> None:
    op.create_table(
        "source_files",
        _text("file_id"),
        _big("device"),
        _big("inode"),
        sa.Column("head_bytes", sa.Integer, nullable=False),
        _text("head_sha256"),
        _text("path"),
        _big("size_bytes"),
        _time("first_seen_at"),
        _big("position"),
        _big("finished_size_bytes"),
        _time("last_read_at", nullable=True),
        _time("last_event_time", nullable=True),
        _text("lease_owner", nullable=True),
        _time("lease_until", nullable=True),
        _big("lease_epoch"),
        sa.PrimaryKeyConstraint("file_id", name="pk_source_files"),
    )
    op.create_table(
        "parts",
        sa.Column("part_id", sa.Integer, nullable=False),
        _text("table_name"),
        sa.Column("session_date", sa.Date, nullable=True),
        _text("path"),
        _text("file_id", nullable=True),
        _big("from_offset", nullable=True),
        _big("to_offset", nullable=True),
        _big("row_count"),
        _big("size_bytes"),
        _time("created_at"),
        _time("superseded_at", nullable=True),
        sa.PrimaryKeyConstraint("part_id", name="pk_parts"),
        sa.UniqueConstraint("path", name="uq_parts_path"),
        sa.ForeignKeyConstraint(["file_id"], ["source_files.file_id"], name="fk_parts_file_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("parts_by_date", "parts", ["table_name", "session_date"])


def _create_sessions_and_dates() -> None:
    op.create_table(
        "session_index",
        _text("session_id"),
        _text("organization_id"),
        sa.Column("session_date", sa.Date, nullable=False),
        _time("first_event_time"),
        sa.PrimaryKeyConstraint("session_id", "organization_id", name="pk_session_index"),
    )
    op.create_table(
        "touched_dates",
        sa.Column("session_date", sa.Date, nullable=False),
        _big("version"),
        _time("touched_at"),
        _big("built_version", nullable=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        _text("last_error", nullable=True),
        _time("next_attempt_at", nullable=True),
        sa.Column("parked", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_touched_dates"),
    )


def _create_books() -> None:
    op.create_table(
        "ingest_batches",
        _text("file_id"),
        _big("from_offset"),
        _big("to_offset"),
        _time("ingested_at"),
        *(_big(counter) for counter in _COUNTERS),
        sa.PrimaryKeyConstraint("file_id", "from_offset", name="pk_ingest_batches"),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_ingest_batches_file_id"
        ),
    )
    op.create_index("ingest_batches_by_time", "ingest_batches", ["ingested_at"])
    op.create_table(
        "ingest_names",
        _text("source"),
        _text("name"),
        _big("records"),
        sa.PrimaryKeyConstraint("source", "name", name="pk_ingest_names"),
    )


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String, nullable=nullable)


def _big(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)
