"""Ledger tables of reputation: what other systems have sent in, and taken back."""

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

# Evaluations that programs sent to the service; they go on to ClickHouse with the next refresh.
SUBMITTED_EVALUATIONS = sa.Table(
    "submitted_evaluations",
    METADATA,
    column("organization_id", sa.String, "organization of the key", primary_key=True),
    column("agent_id", sa.String, "agent that was evaluated", primary_key=True),
    column("evaluation_id", sa.String, "its id, unique for the agent", primary_key=True),
    column("evaluated_at", UtcTime, "when the evaluated work ended"),
    column("passed", sa.Boolean, "whether it was good enough"),
    column("latency_ms", sa.Float, "how long it took, if known", nullable=True),
    column("latency_budget_ms", sa.Float, "how long it may take"),
    column("model", sa.String, "model behind the agent, if known", nullable=True),
    column("source", sa.String, "sdk, proxy or rest"),
    column("submitted_by", sa.String, "name of the key"),
    column("submitted_at", UtcTime, "when it came in"),
    column("loaded_into", UtcTime, "when the ClickHouse that has it was made", nullable=True),
    sa.Index("submitted_evaluations_by_time", "organization_id", "agent_id", "evaluated_at"),
    sa.Index("submitted_evaluations_by_load", "loaded_into"),
)
