"""Tables of scorecards and effective scores."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import msgspec
import polars as pl

from evaluation_pipelines.schemas.sessions import AGENT_SESSIONS
from evaluation_pipelines.schemas.table import BLIND, SPAN, UTC_TIME, WINDOW, Table, columns

CRITERIA_SCORES = pl.List(pl.Struct({"key": pl.String, "value": pl.Float64}))

HUMAN_OVERRIDE = pl.Struct(
    {
        "override_score": pl.Float64,
        "annotator": pl.String,
        "reason": pl.String,
        "at": UTC_TIME,
        "stale": pl.Boolean,
    }
)

SCORECARDS = Table(
    has_texts=True,
    name="scorecards",
    grain="one row per session content and profile version",
    key=("card_id",),
    order=("organization_id", "session_key", "profile_id", "profile_version", "content_hash"),
    several_files=True,
    columns=columns(
        ("card_id", pl.String, "UUID that follows from session, content and profile version"),
        *WINDOW[:4],
        ("content_hash", pl.String, "content the card belongs to. A session that grew has another"),
        ("profile_id", pl.String, "judge profile"),
        ("profile_version", pl.Int64, "version of the profile"),
        ("is_best_match", pl.Boolean, "it was the best match when written. See current_scorecards"),
        ("method", pl.String, "heuristic, llm or hybrid"),
        ("scale_min", pl.Float64, "lowest score of the profile"),
        ("scale_max", pl.Float64, "highest score of the profile"),
        ("overall_score", pl.Float64, "the automatic score: weighted mean, on the scale", BLIND),
        (
            "criteria_scores",
            CRITERIA_SCORES,
            "criterion -> score on the scale, null if unknown",
            BLIND,
        ),
        ("confidence", pl.Float64, "0-1: how far the automatic score can be relied on", BLIND),
        (
            "fallback",
            pl.Boolean,
            "a placeholder at the midpoint: not judged, and counts nowhere",
            BLIND,
        ),
        ("disqualified", pl.Boolean, "a disqualifier was found, null without logged text", BLIND),
        ("disqualifier_triggered", pl.String, "the first disqualifier found", BLIND),
        ("reasoning", pl.String, "how the score came about, or what the judge wrote", BLIND),
        ("judge_model", pl.String, "model that judged its judged criteria, null without"),
        ("judge_flags", pl.String, "flags of that judgment, with commas, null without", BLIND),
        (
            "human_override",
            HUMAN_OVERRIDE,
            "latest override by a person (stale: of older content)",
            BLIND,
        ),
        (
            "effective_score",
            pl.Float64,
            "a live override, else the automatic score, on the scale",
            BLIND,
        ),
        ("effective_100", pl.Float64, "effective_score as 0-100", BLIND),
        *AGENT_SESSIONS.columns_named("model", "provider", "classification_label"),
        *AGENT_SESSIONS.columns_named("cost_usd", "total_tokens"),
        ("duration_ms", pl.Float64, "length of the session, milliseconds"),
        ("tool_effectiveness", pl.Float64, "0-100: share of useful tool calls", BLIND),
        ("started_at", UTC_TIME, "start of the session"),
        ("scored_at", UTC_TIME, "when the automatic score took its present value"),
        ("session_date", pl.Date, "UTC day the session started: the partition"),
    ),
)

EFFECTIVE_SOURCES = {
    "override": "human",
    "scorecard": "profile",
    "judge": "judge",
    "composite": "composite",
    "status": "failed",
    "none": "none",
}
"""Source of an effective score -> its name for people."""

SESSION_EVALUATIONS = Table(
    name="session_evaluations",
    grain="one row per session window: its effective score and the source of it",
    key=("organization_id", "session_key"),
    columns=columns(
        *WINDOW,
        *AGENT_SESSIONS.columns_named("attribution", "source_cli", "model", "provider"),
        *AGENT_SESSIONS.columns_named("classification_label", "task_class"),
        *SPAN,
        *AGENT_SESSIONS.columns_named("status"),
        (
            "effective_100",
            pl.Float64,
            "0-100: the effective score, null when there is none",
            BLIND,
        ),
        (
            "effective_source",
            pl.String,
            "override, scorecard, judge, composite, status or none",
            BLIND,
        ),
        (
            "provisional_100",
            pl.Float64,
            "0-100: what an open session would have had it ended at the build, else null",
            BLIND,
        ),
        (
            "passed",
            pl.Boolean,
            "effective_100 of 50 or more. A failed or canceled session only by an override",
            BLIND,
        ),
        ("colour", pl.String, "red under 50, yellow under 75, green. 'not scored' without", BLIND),
        ("confidence", pl.Float64, "0-1: of the scorecard, 1 of a person, else null", BLIND),
        (
            "quality_risk",
            pl.Boolean,
            "below the profile's quality_risk_fraction, null if unscored",
            BLIND,
        ),
        ("profile_id", pl.String, "best-matching profile, null when none matches"),
        ("profile_version", pl.Int64, "version of it that counts for the session"),
        ("card_id", pl.String, "its scorecard, null when there is none"),
        ("override_id", pl.String, "the live override, null when there is none"),
        (
            "override_100",
            pl.Float64,
            "0-100: human score, while the content is the same",
            BLIND,
        ),
        ("scorecard_100", pl.Float64, "0-100: the automatic score of the scorecard", BLIND),
        ("judge_total", pl.Float64, "0-100: latest total of a judge on this content", BLIND),
        ("judge_total_model", pl.String, "model that gave judge_total"),
        ("judge_model", pl.String, "model that judged automatic_100, null if none took part"),
        ("judge_flags", pl.String, "flags of that judgment, with commas, null without", BLIND),
        ("composite", pl.Float64, "0-10: composite of session_performance", BLIND),
        ("disqualified", pl.Boolean, "a disqualifier was found, null when unknown", BLIND),
        ("reason", pl.String, "why there is no scorecard, null when there is one", BLIND),
        (
            "automatic_100",
            pl.Float64,
            "0-100: the score without overrides, null without one",
            BLIND,
        ),
        (
            "automatic_source",
            pl.String,
            "where that comes from: scorecard, judge ... or none",
            BLIND,
        ),
        ("excluded_by", pl.String, "rule of the user's that leaves it out, null without"),
        ("content_hash", pl.String, "evaluated content"),
        ("session_date", pl.Date, "UTC day the session started: the partition"),
    ),
)

OVERRIDES = Table(
    name="overrides",
    grain="one row per override of a score by a person. None is ever deleted",
    key=("override_id",),
    order=("made_at", "override_id"),
    columns=columns(
        ("override_id", pl.String, "a number as text. A greater one is newer"),
        ("organization_id", pl.String, "organization"),
        ("session_key", pl.String, "session window of the score"),
        ("session_date", pl.Date, "its partition"),
        ("profile_id", pl.String, "judge profile whose score it corrects"),
        ("profile_version", pl.Int64, "version of the profile at that time"),
        ("content_hash", pl.String, "content that the person scored"),
        ("override_score", pl.Float64, "the score by the person, on the scale", BLIND),
        ("override_100", pl.Float64, "the same as 0-100", BLIND),
        (
            "automatic_100",
            pl.Float64,
            "0-100: the automatic score at that time, null without one",
            BLIND,
        ),
        ("is_confirmation", pl.Boolean, "the person agreed with the automatic score", BLIND),
        ("source", pl.String, "person, audit (drawn at random) or import"),
        ("annotator", pl.String, "who", BLIND),
        ("reason", pl.String, "why", BLIND),
        (
            "criterion_id",
            pl.String,
            "criterion that the person found wrong, null: none named",
            BLIND,
        ),
        ("made_at", UTC_TIME, "when"),
        (
            "state",
            pl.String,
            "live, stale (it grew), replaced, or card_only (no best match)",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event about the effective score of a session; ``payload`` is JSON text."""

    event_id: str
    kind: str
    session_date: date
    organization_id: str
    session_key: str
    agent_id: str | None
    effective_100: float
    payload: str

    def payload_values(self) -> dict[str, Any]:
        """Decode the payload."""
        values: dict[str, Any] = msgspec.json.decode(self.payload)
        return values


MAX_SHOWN = 50
"""A partition with more events only counts them: each would take memory, and time to show."""


@dataclass(frozen=True, slots=True)
class Announced:
    """Events that were recorded for the first time.

    ``events`` are the first of them, in their order; ``counts`` is the number of all, by kind.
    """

    events: tuple[Announcement, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
