"""Ledger tables of outgoing evaluations: outbox, receivers and refusals."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

_POSITION = sa.BigInteger()

# One row per session, however often it changes: it does not grow while a receiver is down.
EVALUATION_OUTBOX = sa.Table(
    "evaluation_outbox",
    METADATA,
    column("organization_id", sa.String, "organization", primary_key=True),
    column("session_key", sa.String, "the session window", primary_key=True),
    column("session_date", sa.Date, "partition of the session"),
    column("position", _POSITION, "grows with each change, microseconds since 1970", unique=True),
    column("marks", sa.Text, "JSON: evaluation -> hash of its content, position of its change"),
    sa.Index("evaluation_outbox_by_date", "session_date"),
)

EVALUATION_DATES = sa.Table(
    "evaluation_dates",
    METADATA,
    column("session_date", sa.Date, "UTC day", primary_key=True),
    column("files_hash", sa.CHAR(64), "SHA-256 of the files that the outbox has seen"),
)

EVALUATION_RECEIVERS = sa.Table(
    "evaluation_receivers",
    METADATA,
    column("name", sa.String, "otlp, files or the name of a webhook", primary_key=True),
    column(
        "address_hash", sa.CHAR(64), "SHA-256 of its address: another address is a new receiver"
    ),
    column("position", _POSITION, "it has everything up to here"),
    column("failures", sa.Integer, "attempts since the last one that succeeded"),
    column("failing_since", UtcTime, "first of them, null without", nullable=True),
    column("next_try_at", UtcTime, "when it is tried again, null at once", nullable=True),
    column("last_error", sa.Text, "why the last attempt failed", nullable=True),
    column("ended_at", UtcTime, "when it answered 410, null: it did not", nullable=True),
)

EVALUATION_REFUSALS = sa.Table(
    "evaluation_refusals",
    METADATA,
    column("receiver", sa.String, "receiver", primary_key=True),
    column("organization_id", sa.String, "organization", primary_key=True),
    column("session_key", sa.String, "session whose evaluations were refused", primary_key=True),
    column("session_date", sa.Date, "partition of the session"),
    column("after", _POSITION, "changes after this position were refused"),
    column("reason", sa.Text, "answer of the receiver"),
    column("refused_at", UtcTime, "when"),
)
