"""Ledger tables of profiles, overrides, audits and scheduled rebuilds."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

# Every version of every judge profile.
JUDGE_PROFILES = sa.Table(
    "judge_profiles",
    METADATA,
    column("profile_id", sa.String, "id of the profile", primary_key=True),
    column("version", sa.Integer, "its version", primary_key=True, autoincrement=False),
    column("content_hash", sa.String, "of what may only change with the version"),
    column("definition", sa.Text, "the whole profile as JSON"),
    column("registered_at", UtcTime, "when this version came in"),
    column("rescore_history", sa.Boolean, "it counts for sessions from before, too"),
    column("frozen_until", UtcTime, "no new version until then, by hand", nullable=True),
    column("origin", sa.String, "shipped, file, or api: set by a program", server_default="file"),
)

# Scores by people; append-only, but an answer to the audit sample gets its reason afterwards, and
# may be undone: then the row stays and counts nowhere.
OVERRIDES = sa.Table(
    "overrides",
    METADATA,
    column("override_id", sa.Integer, "grows: the newest counts", primary_key=True),
    column("organization_id", sa.String, "organization"),
    column("session_key", sa.String, "session window that was looked at"),
    column("session_date", sa.Date, "its partition"),
    column("profile_id", sa.String, "judge profile whose score it corrects"),
    column("profile_version", sa.Integer, "its version at that time"),
    column("content_hash", sa.String, "content that was looked at"),
    column("override_score", sa.Float, "the score, on the scale"),
    column("scale_min", sa.Float, "lowest score of the scale"),
    column("scale_max", sa.Float, "highest score of the scale"),
    column("automatic_score", sa.Float, "the automatic score at that time", nullable=True),
    column("is_confirmation", sa.Boolean, "the automatic score was found right"),
    column("source", sa.String, "person, audit, import or undone"),
    column("annotator", sa.String, "who"),
    column("reason", sa.String, "why"),
    column("criterion_id", sa.String, "criterion that was wrong, if named", nullable=True),
    column("recorded_by", sa.String, "key that sent it; null on the terminal", nullable=True),
    column("made_at", UtcTime, "when"),
    sa.Index("overrides_by_date", "session_date"),
    sqlite_autoincrement=True,
)

# Sessions drawn at random for people to score.
AUDIT_SAMPLES = sa.Table(
    "audit_samples",
    METADATA,
    column("session_date", sa.Date, "date they were drawn from", primary_key=True),
    column("organization_id", sa.String, "organization", primary_key=True),
    column("session_key", sa.String, "session window", primary_key=True),
    column("profile_id", sa.String, "profile whose score is asked about"),
    column("content_hash", sa.String, "content at that time"),
    column("drawn_at", UtcTime, "when"),
    column("override_id", sa.Integer, "the answer; null while it is open", nullable=True),
    column("profile_version", sa.Integer, "version of the profile at that time", nullable=True),
    column("classification_label", sa.String, "label at that time", nullable=True),
    column("model", sa.String, "model at that time", nullable=True),
    column("inclusion_probability", sa.Float, "0-1; null if it is not known", nullable=True),
)

# What each reviewer of the audit samples did, apart from answers; append-only.
AUDIT_STEPS = sa.Table(
    "audit_steps",
    METADATA,
    column("position", sa.Integer, "grows with time", primary_key=True),
    column("annotator", sa.String, "who"),
    column("step", sa.String, "begin (a round), show, skip, undo, look or leave (a session)"),
    column("organization_id", sa.String, "of the session", nullable=True),
    column("session_key", sa.String, "session; null when a round begins", nullable=True),
    column("made_at", UtcTime, "when"),
    sa.Index("audit_steps_by_annotator", "annotator"),
    sqlite_autoincrement=True,
)

# Scheduled rebuilds of dates with open sessions.
WAITING_DATES = sa.Table(
    "waiting_dates",
    METADATA,
    column("session_date", sa.Date, "partition", primary_key=True),
    column("due_at", UtcTime, "when the first of its open sessions ends by silence"),
)
