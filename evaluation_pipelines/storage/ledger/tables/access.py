"""Ledger table of the keys of the service."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

_IS_IN_USE = sa.text("revoked_at IS NULL")

# Keys are never deleted: once there was one, the service is never open to all again.
ACCESS_KEYS = sa.Table(
    "access_keys",
    METADATA,
    column("key_id", sa.CHAR(12), "random, in hex; part of the key", primary_key=True),
    column("name", sa.String, "who holds it"),
    column("organization", sa.String, "the only one it sees; null: all", nullable=True),
    column("role", sa.String, "ingest, reader, reviewer or operator"),
    column("secret_sha256", sa.CHAR(64), "SHA-256 of the key, in hex"),
    column("created_at", UtcTime, "when it was made"),
    column("expires_at", UtcTime, "from when it is refused; null: never", nullable=True),
    column("revoked_at", UtcTime, "when it was revoked; null: it was not", nullable=True),
    sa.Index(
        "access_keys_one_in_use",
        "name",
        unique=True,
        sqlite_where=_IS_IN_USE,
    ),
)
