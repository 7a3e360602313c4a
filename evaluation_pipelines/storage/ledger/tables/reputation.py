"""Ledger table of reputation: what other systems have taken back."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

# Kept, so that a file with the signal or evaluation does not bring it back when it is read again.
RETRACTIONS = sa.Table(
    "retractions",
    METADATA,
    column("table_name", sa.String, "reputation_events or agent_evaluations", primary_key=True),
    column("id", sa.String, "event_id or evaluation_id", primary_key=True),
    column(
        "owner",
        sa.String,
        "JSON: identity, or organization and agent; null for the signal of any identity",
        primary_key=True,
    ),
    column("retracted_at", UtcTime, "when it was taken back"),
)
