"""Ledger table of the events that other programs follow."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, column

# Events of scorings, effective scores and alerts. Ids grow in the order of commits: whoever
# continues after the last id it has seen misses none.
SERVICE_EVENTS = sa.Table(
    "service_events",
    METADATA,
    column(
        "event_id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        "grows with each commit: read on from the last one seen",
        primary_key=True,
    ),
    column("type", sa.String, "scoring.*, evaluation.* or alert.*"),
    column("timestamp_us", sa.BigInteger, "when it happened"),
    column("organization_id", sa.String, "organization; null of an alert", nullable=True),
    column("session_id", sa.String, "session.id as sent by the agent", nullable=True),
    column("session_key", sa.String, "the session window; null of an alert", nullable=True),
    column("session_date", sa.Date, "UTC day the session began", nullable=True),
    column("score_id", sa.String, "the scoring", nullable=True),
    column("phase", sa.String, "of scoring.progress: what the judge is asked", nullable=True),
    column("total_score", sa.Integer, "of scoring.completed: 0-100", nullable=True),
    column("error_message", sa.Text, "of scoring.failed and scoring.deferred: why", nullable=True),
    column(
        "unique_id",
        sa.String,
        "of evaluation.*: UUID of card, content and override",
        nullable=True,
        unique=True,
    ),
    column("payload", sa.Text, "of evaluation.* and alert.*: JSON", nullable=True),
    sa.Index("service_events_by_score", "score_id"),
    sa.Index("service_events_by_date", "session_date"),
    sa.Index("service_events_by_time", "timestamp_us"),
    sqlite_autoincrement=True,
)
