"""The tables of the ledger, with a line on every column.

A change here needs a new file in ``migrations/versions`` and its number in ``revision.py``; tests
compare them.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)


class UtcTime(sa.TypeDecorator[datetime]):
    """A point in time: aware on both sides, UTC in the database."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Turn an aware time to UTC; refuse a naive one, which could mean any time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"The ledger takes times with a time zone only, not {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> datetime | None:
        """Give the time its zone back (SQLite stores none)."""
        if value is None:
            return None
        stored: datetime = value
        return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)


class Unsigned64(sa.TypeDecorator[int]):
    """A number of the operating system up to 2**64 - 1, folded into a signed integer.

    Overlay and network file systems hand out inode numbers beyond 2**63.
    """

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> int | None:
        """Fold the upper half of the range to negative numbers."""
        return value - 2**64 if value is not None and value >= 2**63 else value

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> int | None:
        """Unfold."""
        return None if value is None else int(value) % 2**64


def _column(name: str, type_: Any, doc: str, *extra: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, *extra, doc=doc, **{"nullable": False, **options})


def _count(name: str, doc: str) -> sa.Column[Any]:
    return _column(name, sa.BigInteger, doc)


# Files of the landing folder and how far they have been read.
SOURCE_FILES = sa.Table(
    "source_files",
    METADATA,
    _column("file_id", sa.String, "identity of the file, made by the reader", primary_key=True),
    _column("device", Unsigned64, "device number at first sight"),
    _column("inode", Unsigned64, "inode number at first sight"),
    _column("head_bytes", sa.Integer, "how many first bytes the hash covers"),
    _column("head_sha256", sa.String, "hash of the first bytes, hexadecimal"),
    _column("path", sa.String, "where it was last seen, relative to the landing folder"),
    _column("size_bytes", sa.BigInteger, "size when last seen"),
    _column("first_seen_at", UtcTime, "when it was first seen"),
    _column("position", sa.BigInteger, "bytes consumed: the next batch starts here"),
    _column(
        "finished_size_bytes",
        sa.BigInteger,
        "size at which a compressed file was read to its end; its position counts other bytes",
    ),
    _column("last_read_at", UtcTime, "when the last batch was committed", nullable=True),
    _column("last_event_time", UtcTime, "newest event time of all batches", nullable=True),
    _column("lease_owner", sa.String, "who reads it now", nullable=True),
    _column("lease_until", UtcTime, "when the lease expires by itself", nullable=True),
    _column("lease_epoch", sa.BigInteger, "fencing number: grows with each acquisition"),
)

# The manifest: which Parquet files of the lake count.
PARTS = sa.Table(
    "parts",
    METADATA,
    _column("part_id", sa.Integer, "grows with each part, never used again", primary_key=True),
    _column("table_name", sa.String, "agent_events_landed or quarantine"),
    _column("session_date", sa.Date, "partition; null for quarantine", nullable=True),
    _column("path", sa.String, "relative to the lake", unique=True),
    _column(
        "file_id",
        sa.String,
        "source file; null for a merged part",
        sa.ForeignKey("source_files.file_id"),
        nullable=True,
    ),
    _column("from_offset", sa.BigInteger, "first byte; null for a merged part", nullable=True),
    _column("to_offset", sa.BigInteger, "byte after the last; null if merged", nullable=True),
    _column("row_count", sa.BigInteger, "rows of the part"),
    _column("size_bytes", sa.BigInteger, "size of the Parquet file"),
    _column("created_at", UtcTime, "when it entered the manifest"),
    _column(
        "superseded_at", UtcTime, "when a merged part took over; null = current", nullable=True
    ),
    sa.Index("parts_by_date", "table_name", "session_date"),
    sqlite_autoincrement=True,
)

# The session comes first in the key, so that the same index answers "any organization".
# Where each session began.
SESSION_INDEX = sa.Table(
    "session_index",
    METADATA,
    _column("session_id", sa.String, "session.id as sent", primary_key=True),
    _column("organization_id", sa.String, "'*': named by an attribution only", primary_key=True),
    _column("session_date", sa.Date, "UTC day the session began: its partition for good"),
    _column("first_event_time", UtcTime, "time of the event that decided it"),
)

# Dates to be built.
TOUCHED_DATES = sa.Table(
    "touched_dates",
    METADATA,
    _column("session_date", sa.Date, "partition with new data", primary_key=True),
    _column("version", sa.BigInteger, "grows at each touch"),
    _column("touched_at", UtcTime, "when it was last touched"),
    _column("built_version", sa.BigInteger, "version that was built last", nullable=True),
    _column("attempts", sa.Integer, "failed builds of this version"),
    _column("last_error", sa.String, "why the last build failed", nullable=True),
    _column("next_attempt_at", UtcTime, "not to be tried before", nullable=True),
    _column("parked", sa.Boolean, "given up until it is touched or revived"),
)

# What each batch of ingest saw: one row per stretch of bytes.
INGEST_BATCHES = sa.Table(
    "ingest_batches",
    METADATA,
    _column(
        "file_id",
        sa.String,
        "source file",
        sa.ForeignKey("source_files.file_id"),
        primary_key=True,
    ),
    _column("from_offset", sa.BigInteger, "first byte of the batch", primary_key=True),
    _column("to_offset", sa.BigInteger, "byte after the last"),
    _column("ingested_at", UtcTime, "when it was committed"),
    _count("bytes", "bytes consumed"),
    _count("lines", "lines read"),
    _count("events", "events stored"),
    _count("unattributed", "records without a session"),
    _count("quarantined", "lines put into quarantine"),
    _count("unknown_records", "records that no dialect knows, counted by name"),
    _count("skipped", "metrics and traces"),
    _count("attribution_lines", "lines of attribution files"),
    _count("repeated_records", "records that a dialect knows to repeat another one"),
    _count("time_anomalies", "events with an impossible time"),
    _count("value_anomalies", "values that became null"),
    _count("out_of_range", "events filed under the first partition"),
    sa.Index("ingest_batches_by_time", "ingested_at"),
)

# Records that were not stored, counted by name.
INGEST_NAMES = sa.Table(
    "ingest_names",
    METADATA,
    _column("source", sa.String, "agent program, or scope of the records", primary_key=True),
    _column("name", sa.String, "event name as sent", primary_key=True),
    _column("records", sa.BigInteger, "records seen, all batches together"),
)
