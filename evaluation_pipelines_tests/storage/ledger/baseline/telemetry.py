"""Baseline: tables of files, parts, sessions and reads.

They stay as they are when the tables in the code change: later migrations start from here.
"""

import sqlalchemy as sa
from alembic import op


def create_tables() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "ingest_names",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "name", name="pk_ingest_names"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "ledger_ids",
        sa.Column("ledger_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("ledger_id", name="pk_ledger_ids"),
    )
    op.create_table(
        "otel_log_days",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source", "day", name="pk_otel_log_days"),
    )
    op.create_table(
        "otel_log_reads",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("position_ns", sa.BigInteger(), nullable=False),
        sa.Column("first_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("row_hashes", sa.LargeBinary(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("source", "number", name="pk_otel_log_reads"),
    )
    op.create_table(
        "parts",
        sa.Column("part_id", sa.Integer(), nullable=False),
        sa.Column("table_name", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=True),
        sa.Column("slot", sa.String(), nullable=True),
        sa.Column("first_bucket", sa.SmallInteger(), nullable=False),
        sa.Column("last_bucket", sa.SmallInteger(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("part_id", name="pk_parts"),
        sa.UniqueConstraint("path", name="uq_parts_path"),
        sqlite_autoincrement=True,
    )
    op.create_index("parts_by_date", "parts", ["table_name", "session_date"], unique=False)
    op.create_index("parts_by_superseded", "parts", ["superseded_at"], unique=False)
    op.create_table(
        "published_databases",
        sa.Column("file", sa.String(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("file", name="pk_published_databases"),
    )
    op.create_table(
        "session_index",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("first_event_time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "organization_id", name="pk_session_index"),
    )
    op.create_table(
        "source_files",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("device", sa.BigInteger(), nullable=False),
        sa.Column("inode", sa.BigInteger(), nullable=False),
        sa.Column("head_bytes", sa.Integer(), nullable=False),
        sa.Column("head_sha256", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_ns", sa.BigInteger(), nullable=True),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("finished_size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("unfinished", sa.String(), nullable=True),
        sa.Column("last_read_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_event_time", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("file_id", name="pk_source_files"),
    )
    op.create_index("source_files_by_inode", "source_files", ["inode"], unique=False)
    op.create_table(
        "touched_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("touched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("built_version", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("parked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_touched_dates"),
    )
    op.create_table(
        "ingest_batches",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=False),
        sa.Column("to_offset", sa.BigInteger(), nullable=False),
        sa.Column("ingested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("unattributed", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.Column("unknown_records", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("attribution_lines", sa.BigInteger(), nullable=False),
        sa.Column("repeated_records", sa.BigInteger(), nullable=False),
        sa.Column("time_anomalies", sa.BigInteger(), nullable=False),
        sa.Column("value_anomalies", sa.BigInteger(), nullable=False),
        sa.Column("out_of_range", sa.BigInteger(), nullable=False),
        sa.Column("forgotten", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_ingest_batches_file_id"
        ),
        sa.PrimaryKeyConstraint("file_id", "from_offset", name="pk_ingest_batches"),
    )
    op.create_index("ingest_batches_by_time", "ingest_batches", ["ingested_at"], unique=False)
    op.create_table(
        "part_origins",
        sa.Column("origin_id", sa.Integer(), nullable=False),
        sa.Column("part_id", sa.Integer(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=False),
        sa.Column("to_offset", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_part_origins_file_id"
        ),
        sa.ForeignKeyConstraint(["part_id"], ["parts.part_id"], name="fk_part_origins_part_id"),
        sa.PrimaryKeyConstraint("origin_id", name="pk_part_origins"),
    )
    op.create_index("part_origins_by_part", "part_origins", ["part_id"], unique=False)
    op.create_table(
        "quarantine_retries",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("record_index", sa.Integer(), nullable=False),
        sa.Column("retried_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["file_id"], ["source_files.file_id"], name="fk_quarantine_retries_file_id"
        ),
        sa.PrimaryKeyConstraint("file_id", "offset", "record_index", name="pk_quarantine_retries"),
    )
