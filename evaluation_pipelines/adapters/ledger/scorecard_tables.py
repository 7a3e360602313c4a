"""The tables of the ledger around scorecards, with a line on every column."""

from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.tables import METADATA, UtcTime


def _column(name: str, type_: Any, doc: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, doc=doc, **{"nullable": False, **options})


# Every version of every judge profile.
JUDGE_PROFILES = sa.Table(
    "judge_profiles",
    METADATA,
    _column("profile_id", sa.String, "id of the profile", primary_key=True),
    _column("version", sa.Integer, "its version", primary_key=True, autoincrement=False),
    _column("content_hash", sa.String, "of what may only change with the version"),
    _column("definition", sa.Text, "the whole profile as JSON"),
    _column("registered_at", UtcTime, "when this version came in"),
    _column("rescore_history", sa.Boolean, "it counts for sessions from before, too"),
    _column("frozen_until", UtcTime, "no new version until then, by hand", nullable=True),
)

# What people said of scores: only ever added to.
OVERRIDES = sa.Table(
    "overrides",
    METADATA,
    _column("override_id", sa.Integer, "grows: the newest counts", primary_key=True),
    _column("organization_id", sa.String, "organization"),
    _column("session_key", sa.String, "session window that was looked at"),
    _column("session_date", sa.Date, "its partition"),
    _column("profile_id", sa.String, "judge profile whose score it corrects"),
    _column("profile_version", sa.Integer, "its version at that time"),
    _column("content_hash", sa.String, "content that was looked at"),
    _column("override_score", sa.Float, "the score, on the scale"),
    _column("scale_min", sa.Float, "lowest score of the scale"),
    _column("scale_max", sa.Float, "highest score of the scale"),
    _column("automatic_score", sa.Float, "the automatic score at that time", nullable=True),
    _column("is_confirmation", sa.Boolean, "the automatic score was found right"),
    _column("source", sa.String, "person, audit or import"),
    _column("annotator", sa.String, "who"),
    _column("reason", sa.String, "why"),
    _column("made_at", UtcTime, "when"),
    sa.Index("overrides_by_date", "session_date"),
    sqlite_autoincrement=True,
)

# Sessions drawn at random for people to look at.
AUDIT_SAMPLES = sa.Table(
    "audit_samples",
    METADATA,
    _column("session_date", sa.Date, "date they were drawn from", primary_key=True),
    _column("organization_id", sa.String, "organization", primary_key=True),
    _column("session_key", sa.String, "session window", primary_key=True),
    _column("profile_id", sa.String, "profile whose score is asked about"),
    _column("content_hash", sa.String, "content at that time"),
    _column("drawn_at", UtcTime, "when"),
    _column("override_id", sa.Integer, "the answer; null while it is open", nullable=True),
)

# What happened to effective scores, for other systems to follow.
EVALUATION_EVENTS = sa.Table(
    "evaluation_events",
    METADATA,
    _column("position", sa.Integer, "grows: read on from the last one seen", primary_key=True),
    _column("event_id", sa.String, "UUID of card, content and override", unique=True),
    _column("kind", sa.String, "evaluation.model_feedback or evaluation.quality_risk"),
    _column("session_date", sa.Date, "partition of the session"),
    _column("organization_id", sa.String, "organization"),
    _column("session_key", sa.String, "session window"),
    _column("payload", sa.Text, "JSON: session, agent, model, scores, confidence, source"),
    _column("recorded_at", UtcTime, "when it was first seen"),
    sa.Index("evaluation_events_by_date", "session_date"),
    sqlite_autoincrement=True,
)

# Dates on which a session had not ended when they were built.
WAITING_DATES = sa.Table(
    "waiting_dates",
    METADATA,
    _column("session_date", sa.Date, "partition", primary_key=True),
    _column("due_at", UtcTime, "when the first of its open sessions ends by silence"),
)
