"""Ledger tables of judging: scorings, budgets, profiles, overrides, audits."""

from collections.abc import Iterator
from datetime import date
from typing import Any, Literal, get_origin

import sqlalchemy as sa

from evaluation_pipelines.schemas.judge_score import FIELDS
from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime, column

_JSON = sa.JSON(none_as_null=True)


def _known_later(name: str, type_: Any, doc: str) -> sa.Column[Any]:
    return column(name, type_, doc, nullable=True)


_KINDS = {"text": sa.Text, "hash": sa.CHAR(64), "count": sa.BigInteger}
_TYPES = {str: sa.String, int: sa.Integer, float: sa.Double, bool: sa.Boolean, date: sa.Date}


def _scoring_columns() -> Iterator[sa.Column[Any]]:
    """Yield the columns of a table of scorings, as ``Score`` declares them."""
    for name, field in FIELDS.items():
        is_text = get_origin(field.type_) is Literal
        by_type = sa.String if is_text else _TYPES.get(field.type_, _JSON)
        type_ = sa.BigInteger if name.endswith("_us") else _KINDS.get(field.meaning.kind, by_type)
        is_key = name == "score_id"
        options = {"nullable": field.is_nullable, "primary_key": is_key}
        yield column(name, type_, field.meaning.text, **options)


def _scorings(name: str, *indexes: sa.Index) -> sa.Table:
    """Return a table of scorings with the indexes that every one of them needs."""
    return sa.Table(
        name,
        METADATA,
        *_scoring_columns(),
        sa.Index(f"{name}_by_session", "session_key"),
        # Covers the sum of a day: the rows have long texts.
        sa.Index(
            f"{name}_by_booking",
            "booked_at_us",
            "score_id",
            "booked_cost_usd",
            "reserved_cost_usd",
        ),
        *indexes,
    )


def _one_open(name: str, *columns: str) -> sa.Index:
    """Return a unique index: at most one unfinished scoring has the same values."""
    is_open = sa.text("status IN ('pending', 'in_progress')")
    return sa.Index(f"{name}_one_open", *columns, unique=True, sqlite_where=is_open)


# Scorings of sessions: one row each, from the request to its end.
SESSION_SCORES = _scorings(
    "session_scores",
    sa.Index("session_scores_by_prompt", "prompt_hash"),
    sa.Index("session_scores_by_total", "total_score"),
    sa.Index("session_scores_by_status", "status"),
    sa.Index("session_scores_by_session_status", "session_key", "status"),
    sa.Index("session_scores_by_status_start", "status", "started_at_us"),
    sa.Index("session_scores_by_date", "session_date"),
    # No session is scored twice at the same time by one profile and model.
    _one_open(
        "session_scores", "organization_id", "session_key", "judge_profile_id", "judge_model"
    ),
)

# Scorings of anchor sessions by the judges of a change, and of labeled sessions (organization_id is
# the run). They are no scores of the session: no scorecard, list or average reads them.
ANCHOR_SCORES = _scorings(
    "anchor_scores",
    _one_open(
        "anchor_scores",
        "organization_id",
        "session_key",
        "judge_profile_id",
        "judge_profile_version",
        "judge_model",
        "prompt_hash",
    ),
)

# Changes of a judge for which anchors were drawn.
JUDGE_BRIDGES = sa.Table(
    "judge_bridges",
    METADATA,
    column("change_id", sa.String, "hash of profile, former and new judge", primary_key=True),
    column("frame_since", sa.Date, "first session date of the sessions to draw from"),
    column("frame_until", sa.Date, "day after the last one"),
    column("frame_sessions", sa.Integer, "number of these sessions"),
    column("drawn_at_us", sa.BigInteger, "when the anchors were drawn"),
    _known_later("refusal", sa.Text, "why a judge could not be called, null if it answered"),
)

# Anchors of a change: sessions that its former and its new judge score.
JUDGE_ANCHORS = sa.Table(
    "judge_anchors",
    METADATA,
    column("change_id", sa.String, "the change", primary_key=True),
    column("organization_id", sa.String, "organization", primary_key=True),
    column("session_key", sa.String, "the session window", primary_key=True),
    column("session_id", sa.String, "session.id as sent by the agent"),
    column("session_date", sa.Date, "UTC day the session started"),
    column("content_hash", sa.String, "the content that both judges score"),
    column("classification_label", sa.String, "label: part of the stratum"),
    _known_later("agent_model", sa.String, "model of the agent: part of the stratum"),
    column("stratum_sessions", sa.Integer, "sessions of the stratum to draw from"),
    column("stratum_anchors", sa.Integer, "anchors drawn from them"),
    column("place", sa.Integer, "place in the random order of the stratum, from 0"),
    _known_later("replaced_because", sa.Text, "why the next session took its place"),
)

# Texts of rubrics that judged: a changed rubric can still be asked again.
RUBRIC_TEXTS = sa.Table(
    "rubric_texts",
    METADATA,
    column("prompt_hash", sa.CHAR(64), "SHA-256 of templates and criteria", primary_key=True),
    column("rubric", sa.String, "name of the rubric"),
    column("score_template", sa.Text, "template of the score turn"),
    column("missing_tools_template", sa.Text, "template of the second turn"),
    column("criteria", _JSON, "list of criteria: id, name, description, points"),
    column("first_used_at_us", sa.BigInteger, "when it was first seen"),
)

# Validations of a judge by labeled sessions: one row per run.
JUDGE_VALIDATIONS = sa.Table(
    "judge_validations",
    METADATA,
    column("run_id", sa.String, "UUID", primary_key=True),
    column("judge_model", sa.String, "model that judged"),
    column("rubric", sa.String, "name of the rubric"),
    column("prompt_hash", sa.CHAR(64), "SHA-256 of the rubric's words"),
    column("set_hash", sa.CHAR(64), "SHA-256 of the labeled sessions"),
    column("started_at_us", sa.BigInteger, "when it started"),
    _known_later("completed_at_us", sa.BigInteger, "when it ended, null if it was killed"),
    _known_later("stop_reason", sa.Text, "why it ended early"),
    column("sessions", _JSON, "labeled sessions with the verdicts"),
)

# Files of requests at a provider's Batch API: one row each, from its preparation to its end.
JUDGE_BATCHES = sa.Table(
    "judge_batches",
    METADATA,
    column("batch_id", sa.String, "UUID. Scorings that wait in it name it", primary_key=True),
    column("judge_model", sa.String, "model that judges"),
    column("state", sa.String, "preparing, submitting, submitted, collected, closed or discarded"),
    column("requests", sa.Integer, "number of requests"),
    _known_later("input_file_id", sa.String, "the provider's id of the file"),
    _known_later("provider_batch_id", sa.String, "the provider's id of the batch"),
    _known_later("provider_status", sa.String, "its status there when it was last polled"),
    _known_later("output_file_ids", _JSON, "files of results, deleted after collection"),
    column("completed_requests", sa.Integer, "requests with an answer"),
    column("failed_requests", sa.Integer, "requests without one"),
    column("created_at_us", sa.BigInteger, "when its preparation started"),
    _known_later("submitting_at_us", sa.BigInteger, "just before it was created at the provider"),
    _known_later("polled_at_us", sa.BigInteger, "when its status was last asked for"),
    _known_later("expected_by_us", sa.BigInteger, "when the provider gives it up"),
    _known_later("ended_at_us", sa.BigInteger, "when it was collected or discarded"),
    _known_later("error_message", sa.Text, "why it was discarded, or what the provider refused"),
    sa.Index("judge_batches_by_state", "state"),
)

# Every version of every judge profile.
JUDGE_PROFILES = sa.Table(
    "judge_profiles",
    METADATA,
    column("profile_id", sa.String, "id of the profile", primary_key=True),
    column("version", sa.Integer, "its version", primary_key=True, autoincrement=False),
    column("content_hash", sa.String, "of what may only change with the version"),
    column("definition", sa.Text, "the whole profile as JSON"),
    column("registered_at", UtcTime, "when this version came in"),
    column("rescore_history", sa.Boolean, "it also counts for older sessions"),
    column("origin", sa.String, "shipped, file, or api: set by a program", server_default="file"),
)

# Scores by people; append-only, but an answer to the audit sample gets its reason afterwards, and
# may be undone: then the row stays and counts nowhere.
OVERRIDES = sa.Table(
    "overrides",
    METADATA,
    column("override_id", sa.Integer, "grows: the latest counts", primary_key=True),
    column("organization_id", sa.String, "organization"),
    column("session_key", sa.String, "session window of the score"),
    column("session_date", sa.Date, "its partition"),
    column("profile_id", sa.String, "judge profile whose score it corrects"),
    column("profile_version", sa.Integer, "its version at that time"),
    column("content_hash", sa.String, "content that the person scored"),
    column("override_score", sa.Float, "the score, on the scale"),
    column("scale_min", sa.Float, "lowest score of the scale"),
    column("scale_max", sa.Float, "highest score of the scale"),
    column("automatic_score", sa.Float, "the automatic score at that time", nullable=True),
    column("is_confirmation", sa.Boolean, "the automatic score was found right"),
    column("source", sa.String, "person, audit, import or undone"),
    column("annotator", sa.String, "who"),
    column("reason", sa.String, "why"),
    column("criterion_id", sa.String, "criterion that was wrong, if named", nullable=True),
    column("recorded_by", sa.String, "key that sent it, null on the terminal", nullable=True),
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
    column("override_id", sa.Integer, "the answer, null while it is open", nullable=True),
    column("profile_version", sa.Integer, "version of the profile at that time", nullable=True),
    column("classification_label", sa.String, "label at that time", nullable=True),
    column("model", sa.String, "model at that time", nullable=True),
    column("inclusion_probability", sa.Float, "0-1, null if it is not known", nullable=True),
)

# What each reviewer of the audit samples did, apart from answers; append-only.
AUDIT_STEPS = sa.Table(
    "audit_steps",
    METADATA,
    column("position", sa.Integer, "grows with time", primary_key=True),
    column("annotator", sa.String, "who"),
    column("step", sa.String, "begin (a round), show, skip, undo, look or leave (a session)"),
    column("organization_id", sa.String, "of the session", nullable=True),
    column("session_key", sa.String, "session, null when a round begins", nullable=True),
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

# How often a gate looked at the runs of the same two arms.
GATE_LOOKS = sa.Table(
    "gate_looks",
    METADATA,
    column("gate", sa.String, "SHA-256 of base and head", primary_key=True),
    column("look", sa.Integer, "number of the look, from 1", primary_key=True),
    column("runs", sa.String, "SHA-256 of the runs: the same runs are the same look"),
    column("looked_at", UtcTime, "when"),
    column("level", sa.Float, "error that a look at predictions spent", nullable=True),
)

# Experiments as they were planned.
EXPERIMENTS = sa.Table(
    "experiments",
    METADATA,
    column("name", sa.String, "name", primary_key=True),
    column("plan", sa.String, "arms, share, unit, days, start, metric, profile, judge, key: JSON"),
    column("created_at", UtcTime, "when"),
)
