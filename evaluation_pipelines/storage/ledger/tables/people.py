"""Ledger tables of people and other programs: keys, identities, events, alerts, outcomes."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

# Every version of the identities; the newest counts.
IDENTITIES = sa.Table(
    "identities",
    METADATA,
    column("version", sa.Integer, "grows: the latest counts", primary_key=True),
    column("content_hash", sa.CHAR(64), "SHA-256 of the definition"),
    column("definition", sa.Text, "all people with their ids and teams, as JSON"),
    column("registered_at", UtcTime, "when it came in"),
    sqlite_autoincrement=True,
)

_IS_IN_USE = sa.text("revoked_at IS NULL")

# Keys are never deleted: once there was one, the service is never open to all again.
ACCESS_KEYS = sa.Table(
    "access_keys",
    METADATA,
    column("key_id", sa.CHAR(12), "random, in hex. Part of the key", primary_key=True),
    column("name", sa.String, "who holds it"),
    column("organization", sa.String, "the only one it sees, null: all", nullable=True),
    column("role", sa.String, "ingest, reader, reviewer or operator"),
    column("secret_sha256", sa.CHAR(64), "SHA-256 of the key, in hex"),
    column("created_at", UtcTime, "when it was made"),
    column("expires_at", UtcTime, "from when it is refused; null: never", nullable=True),
    column("revoked_at", UtcTime, "when it was revoked, null: it was not", nullable=True),
    sa.Index(
        "access_keys_one_in_use",
        "name",
        unique=True,
        sqlite_where=_IS_IN_USE,
    ),
)

_IS_OPEN = sa.text("over_at IS NULL")

ALERTS = sa.Table(
    "alerts",
    METADATA,
    sa.Column("alert_id", sa.Integer, primary_key=True, doc="grows"),
    sa.Column("kind", sa.String, nullable=False, doc="what sort of thing happened"),
    sa.Column("cause", sa.String, nullable=False, doc="which one: each is reported once"),
    sa.Column("title", sa.Text, nullable=False, doc="what happened, in a line"),
    sa.Column("text", sa.Text, nullable=False, doc="where, and what to do"),
    sa.Column("raised_at", UtcTime, nullable=False, doc="when it was noticed"),
    sa.Column("told_at", UtcTime, nullable=True, doc="when the webhook took it, null: not yet"),
    sa.Column("over_at", UtcTime, nullable=True, doc="when it ended: from then on it is news"),
    # One open alert per cause, even in a race.
    sa.Index(
        "alerts_one_open",
        "kind",
        "cause",
        unique=True,
        sqlite_where=_IS_OPEN,
    ),
    sqlite_autoincrement=True,
)

# Events of scorings, effective scores and alerts. Ids grow in the order of commits: a reader
# that continues after its last id misses none.
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
    column("organization_id", sa.String, "organization, null of an alert", nullable=True),
    column("session_id", sa.String, "session.id as sent by the agent", nullable=True),
    column("session_key", sa.String, "the session window, null of an alert", nullable=True),
    column("session_date", sa.Date, "UTC day the session started", nullable=True),
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

# Kept, so that a file with the signal or evaluation does not bring it back when it is read again.
RETRACTIONS = sa.Table(
    "retractions",
    METADATA,
    column("table_name", sa.String, "reputation_events or agent_evaluations", primary_key=True),
    column("id", sa.String, "event_id or evaluation_id", primary_key=True),
    column(
        "owner",
        sa.String,
        "JSON: identity, or organization and agent, null for the signal of any identity",
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

# An outcome is corrected by a later one with the same key.
LATE_OUTCOMES = sa.Table(
    "late_outcomes",
    METADATA,
    column("organization_id", sa.String, "organization", primary_key=True),
    column("session_id", sa.String, "session.id as sent", primary_key=True),
    column("session_key", sa.String, "its window, empty: all of them", primary_key=True),
    column("kind", sa.String, "what happened", primary_key=True),
    column("source", sa.String, "git or outside", primary_key=True),
    column("reference", sa.String, "commit or name, empty: none", primary_key=True),
    column("happened_at", UtcTime, "when it happened", nullable=True),
    column("value", sa.Float, "1 yes, 0 no, or a share", nullable=True),
    column("lines", sa.BigInteger, "lines that a share is of", nullable=True),
    column("inferred", sa.Boolean, "the commit was found by author, time and branch"),
    column("read_at", UtcTime, "when the source was read"),
    sa.Index("late_outcomes_by_session", "session_id"),
)

# Dates whose outcomes have changed since the table of the lake was written.
OUTCOME_DATES = sa.Table(
    "outcome_dates",
    METADATA,
    column("session_date", sa.Date, "partition", primary_key=True),
    column("version", sa.BigInteger, "grows with each change"),
)
