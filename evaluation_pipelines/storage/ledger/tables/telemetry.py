"""Ledger tables of telemetry: files, batches, parts, dates, locks, and what was forgotten."""

from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, Unsigned64, UtcTime, column


def _count(name: str, doc: str) -> sa.Column[Any]:
    return column(name, sa.BigInteger, doc)


# Which ledger this is: the lake notes it, so that no other ledger deletes its parts.
LEDGER_IDS = sa.Table(
    "ledger_ids",
    METADATA,
    column("ledger_id", sa.String, "random, given when the ledger was created", primary_key=True),
)

# Files of the landing folder and their read positions.
SOURCE_FILES = sa.Table(
    "source_files",
    METADATA,
    column("file_id", sa.String, "identity of the file, made by the reader", primary_key=True),
    column("device", Unsigned64, "device number at first sight"),
    column("inode", Unsigned64, "inode number at first sight"),
    column("head_bytes", sa.Integer, "how many first bytes the hash covers"),
    column("head_sha256", sa.String, "hash of the first bytes, hexadecimal"),
    column("path", sa.String, "where it was last seen, relative to the landing folder"),
    column("size_bytes", sa.BigInteger, "size when last seen"),
    column(
        "changed_at_ns",
        sa.BigInteger,
        "when it was last changed, if all of it was read then, null = to be opened",
        nullable=True,
    ),
    column("first_seen_at", UtcTime, "when it was first seen"),
    column("position", sa.BigInteger, "bytes consumed: the next batch starts here"),
    column(
        "finished_size_bytes",
        sa.BigInteger,
        "size at which a compressed file was read to its end. Its position counts other bytes",
    ),
    column("unfinished", sa.String, "why the end of it is missing at that size", nullable=True),
    column("last_read_at", UtcTime, "when the last batch was committed", nullable=True),
    column("last_event_time", UtcTime, "newest event time of all batches", nullable=True),
    sa.Index("source_files_by_inode", "inode"),
)

# The manifest: which Parquet files of the lake count.
PARTS = sa.Table(
    "parts",
    METADATA,
    column("part_id", sa.Integer, "grows with each part, never used again", primary_key=True),
    column("table_name", sa.String, "table of the lake"),
    column("session_date", sa.Date, "partition, null for a table without", nullable=True),
    column(
        "slot", sa.String, "a new part of the same slot replaces it, null = added", nullable=True
    ),
    column("first_bucket", sa.SmallInteger, "first bucket of its sessions, 0 to 255"),
    column("last_bucket", sa.SmallInteger, "last bucket of its sessions"),
    column("path", sa.String, "relative to the lake", unique=True),
    column("row_count", sa.BigInteger, "rows of the part"),
    column("size_bytes", sa.BigInteger, "size of the Parquet file"),
    column("sha256", sa.String, "hash of the file, hexadecimal"),
    column("created_at", UtcTime, "when it entered the manifest"),
    column("superseded_at", UtcTime, "when another part took over, null = current", nullable=True),
    sa.Index("parts_by_date", "table_name", "session_date"),
    sa.Index("parts_by_superseded", "superseded_at"),
    sqlite_autoincrement=True,
)

# The bytes of landing files that landed parts were read from; a merged part has those of all.
PART_ORIGINS = sa.Table(
    "part_origins",
    METADATA,
    column("origin_id", sa.Integer, "a number", primary_key=True),
    column("part_id", sa.Integer, "the part", sa.ForeignKey("parts.part_id")),
    column("file_id", sa.String, "source file", sa.ForeignKey("source_files.file_id")),
    column("from_offset", sa.BigInteger, "first byte"),
    column("to_offset", sa.BigInteger, "byte after the last"),
    column("row_count", sa.BigInteger, "rows of the part that are from there"),
    column("read_at", UtcTime, "when they were read"),
    sa.Index("part_origins_by_part", "part_id"),
)

# Databases whose views name parts: these are kept until newer databases have been published.
PUBLISHED_DATABASES = sa.Table(
    "published_databases",
    METADATA,
    column("file", sa.String, "file name of the database", primary_key=True),
    column("published_at", UtcTime, "time at which the manifest was read for it"),
)

# The session comes first in the key, so that the same index answers "any organization".
# Where each session began.
SESSION_INDEX = sa.Table(
    "session_index",
    METADATA,
    column("session_id", sa.String, "session.id as sent", primary_key=True),
    column("organization_id", sa.String, "'*': named by an attribution only", primary_key=True),
    column("session_date", sa.Date, "UTC day the session started: partition of its events"),
    column("first_event_time", UtcTime, "time of its first event"),
    column("parent_session_id", sa.String, "session it is filed under", nullable=True),
    column(
        "named_by",
        sa.String,
        "time and id of the span of a trace that names that session: the smallest",
        nullable=True,
    ),
    column(
        "unfiled",
        sa.Boolean,
        "events of it may have to move: to its parent, or to an earlier date",
        server_default=sa.false(),
    ),
    sa.Index("session_index_by_unfiled", "unfiled"),
)

# The rebuild queue.
TOUCHED_DATES = sa.Table(
    "touched_dates",
    METADATA,
    column("session_date", sa.Date, "partition with new data", primary_key=True),
    column("version", sa.BigInteger, "grows at each touch"),
    column("touched_at", UtcTime, "when it was last touched"),
    column("built_version", sa.BigInteger, "version that was built last", nullable=True),
    column("attempts", sa.Integer, "failed builds of this version"),
    column(
        "last_error",
        sa.String,
        "why the last build failed, or which damaged file was met since",
        nullable=True,
    ),
    column("next_attempt_at", UtcTime, "not to be tried before", nullable=True),
    column("parked", sa.Boolean, "given up until it is touched or revived"),
)

# Who holds a lock, or held it last: see storage/lock.py.
HOLDERS = sa.Table(
    "holders",
    METADATA,
    column("name", sa.String, "what is held, for example `build 2026-06-01`", primary_key=True),
    column("holder_id", sa.String, "UUID of the one block that holds it"),
    column("host", sa.String, "machine of the holder"),
    column("process_id", sa.BigInteger, "process of the holder, on its machine"),
    column("since", UtcTime, "when it was taken"),
    column("last_progress_at", UtcTime, "when the holder last committed or changed something"),
)

# Batches of ingest: one row per byte range.
INGEST_BATCHES = sa.Table(
    "ingest_batches",
    METADATA,
    column(
        "file_id",
        sa.String,
        "source file",
        sa.ForeignKey("source_files.file_id"),
        primary_key=True,
    ),
    column("from_offset", sa.BigInteger, "first byte of the batch", primary_key=True),
    column("to_offset", sa.BigInteger, "byte after the last"),
    column("ingested_at", UtcTime, "when it was committed"),
    _count("bytes", "bytes consumed"),
    _count("lines", "lines read"),
    _count("events", "events stored"),
    _count("unattributed", "records without a session"),
    _count("quarantined", "lines put into quarantine"),
    _count("unknown_records", "records that no dialect knows, counted by name"),
    _count("skipped", "lines with metrics"),
    _count("attribution_lines", "lines of attribution files, and outcomes"),
    _count("repeated_records", "records that a dialect knows to repeat another one"),
    _count("time_anomalies", "events with an unreadable or impossible time"),
    _count("value_anomalies", "values that became null"),
    _count("out_of_range", "events filed under the first partition"),
    column(
        "forgotten",
        sa.BigInteger,
        "erased events, left out",
        server_default=sa.text("0"),
    ),
    column(
        "times_observed",
        sa.BigInteger,
        "of time_anomalies, those replaced by the observed time",
        server_default=sa.text("0"),
    ),
    column(
        "times_of_ingest",
        sa.BigInteger,
        "of time_anomalies, those replaced by the time of ingest",
        server_default=sa.text("0"),
    ),
    column("spans", sa.BigInteger, "spans read, null if spans were not read then", nullable=True),
    sa.Index("ingest_batches_by_time", "ingested_at"),
)

# Records that were not stored, counted by name.
INGEST_NAMES = sa.Table(
    "ingest_names",
    METADATA,
    column("source", sa.String, "agent program, or scope of the records", primary_key=True),
    column("name", sa.String, "event name as sent", primary_key=True),
    column("records", sa.BigInteger, "records seen, all batches together"),
)

# What was read from `otel_logs` of ClickHouse into landing files: the newest read of each table,
# and those whose rows may be met again.
OTEL_LOG_READS = sa.Table(
    "otel_log_reads",
    METADATA,
    column("source", sa.String, "server, database and table", primary_key=True),
    column("number", sa.BigInteger, "grows with each file", primary_key=True),
    column("path", sa.String, "landing file with the rows"),
    column("position_ns", sa.BigInteger, "time up to which rows were read, then"),
    column("first_ns", sa.BigInteger, "time of the oldest row"),
    column("last_ns", sa.BigInteger, "time of the newest row"),
    column("row_hashes", sa.LargeBinary, "hashes of the rows, 16 bytes each"),
    column("read_at", UtcTime, "when it was committed"),
)

# How many rows each of the last minutes of `otel_logs` had when it was read: more are there now if
# some arrived later than the overlap.
OTEL_LOG_MINUTES = sa.Table(
    "otel_log_minutes",
    METADATA,
    column("source", sa.String, "server, database and table", primary_key=True),
    column("minute", sa.BigInteger, "minutes since 1970 (UTC)", primary_key=True),
    column("row_count", sa.BigInteger, "rows that it had"),
)

# Transcripts of agents on this machine, and how far they were read.
TRANSCRIPTS = sa.Table(
    "transcripts",
    METADATA,
    column("path_hash", sa.CHAR(32), "hash of machine and path", primary_key=True),
    column("program", sa.String, "agent program"),
    column("head_bytes", sa.Integer, "how many first bytes the hash covers"),
    column("head_sha256", sa.String, "hash of the first bytes, hexadecimal"),
    column("size_bytes", sa.BigInteger, "size when it was read"),
    column("modified_at_ns", sa.BigInteger, "when it was last changed then"),
    column("position", sa.BigInteger, "bytes read: the next reading starts here"),
    column("is_open", sa.Boolean, "later lines complete what is behind the position"),
    column("first_id", sa.String, "id of its first message, also of its forks", nullable=True),
    column("first_time", sa.String, "first time in it, as written", nullable=True),
    column("context", sa.String, "JSON: state of its reader"),
    sa.Index("transcripts_by_first_id", "first_id"),
)

# Lines read of transcripts, by version of their program.
TRANSCRIPT_LINES = sa.Table(
    "transcript_lines",
    METADATA,
    column("program", sa.String, "agent program", primary_key=True),
    column("version", sa.String, "its version, empty if unknown", primary_key=True),
    column("kind", sa.String, "kind of line, as the program names it", primary_key=True),
    column("is_known", sa.Boolean, "its reader knows the kind", primary_key=True),
    column("line_count", sa.BigInteger, "lines read"),
)

# Erasures: when, by whom, of what kind; not whom.
ERASURES = sa.Table(
    "erasures",
    METADATA,
    column("erasure_id", sa.Integer, "grows", primary_key=True),
    column("subject", sa.String, "person, user, session or organization"),
    column("requested_by", sa.String, "user of the operating system who asked for it"),
    column("requested_at", UtcTime, "when it started"),
    column("completed_at", UtcTime, "when nothing was left, null: run it again", nullable=True),
    sqlite_autoincrement=True,
)

# Rows that an erasure took out, by store.
ERASED_ROWS = sa.Table(
    "erased_rows",
    METADATA,
    column(
        "erasure_id",
        sa.Integer,
        "the erasure",
        sa.ForeignKey("erasures.erasure_id"),
        primary_key=True,
        autoincrement=False,
    ),
    column("store", sa.String, "table of the lake, the ledger or ClickHouse", primary_key=True),
    column("row_count", sa.BigInteger, "rows taken out"),
)

# Keyed hashes of what must not come back; the key is in a file.
FORGOTTEN = sa.Table(
    "forgotten",
    METADATA,
    column(
        "hash", sa.CHAR(32), "keyed hash of a session, an id or an organization", primary_key=True
    ),
    column("until", UtcTime, "only of events up to this time, null: of all", nullable=True),
    column("erasure_id", sa.Integer, "the erasure", sa.ForeignKey("erasures.erasure_id")),
)

# Events that were landed and are erased: the books count them.
ERASED_EVENTS = sa.Table(
    "erased_events",
    METADATA,
    column("session_date", sa.Date, "partition they were taken out of", primary_key=True),
    column("events", sa.BigInteger, "number of landed events"),
)

# Dates whose texts or events have expired: they are not built again.
EXPIRED_DATES = sa.Table(
    "expired_dates",
    METADATA,
    column("session_date", sa.Date, "partition", primary_key=True),
    column("what", sa.String, "texts, or events with their texts"),
    column("expired_at", UtcTime, "when"),
)
