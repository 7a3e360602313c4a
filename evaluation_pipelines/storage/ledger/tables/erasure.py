"""Ledger tables of what was forgotten."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

# Erasures: when, by whom, of what kind; not whom.
ERASURES = sa.Table(
    "erasures",
    METADATA,
    column("erasure_id", sa.Integer, "grows", primary_key=True),
    column("subject", sa.String, "person, user, session or organization"),
    column("requested_by", sa.String, "user of the operating system who asked for it"),
    column("requested_at", UtcTime, "when it began"),
    column("completed_at", UtcTime, "when nothing was left; null: run it again", nullable=True),
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
    column("until", UtcTime, "only of events up to this time; null: of all", nullable=True),
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
