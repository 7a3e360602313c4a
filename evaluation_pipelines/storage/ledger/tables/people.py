"""Ledger table of the identities: which ids belong to which person."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

# Every version of the identities; the newest counts.
IDENTITIES = sa.Table(
    "identities",
    METADATA,
    column("version", sa.Integer, "grows: the newest counts", primary_key=True),
    column("content_hash", sa.CHAR(64), "SHA-256 of the definition"),
    column("definition", sa.Text, "all people with their ids and teams, as JSON"),
    column("registered_at", UtcTime, "when it came in"),
    sqlite_autoincrement=True,
)
