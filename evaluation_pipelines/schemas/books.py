"""Table of the books of a day: the state of every session."""

import polars as pl

from evaluation_pipelines.schemas.table import BLIND, UTC_TIME, Table, columns

EVALUATION_BOOKS = Table(
    name="evaluation_books",
    grain="one row per session window: the one state it is in, why, and what would change that",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=columns(
        ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
        ("session_id", pl.String, "session.id as sent by the agent"),
        ("organization_id", pl.String, "organization"),
        ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
        ("source_cli", pl.String, "agent program"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        ("classification_label", pl.String, "newest label sent, else 'general'"),
        ("started_at", UTC_TIME, "start of the window"),
        ("ended_at", UTC_TIME, "end of the window"),
        (
            "state",
            pl.String,
            "excluded ... scored ... deferred: the first that holds, see books.md",
        ),
        ("reason", pl.String, "why it is in that state", BLIND),
        ("what_next", pl.String, "what would bring it into another state"),
        ("profile_id", pl.String, "best-matching profile; null when none matches"),
        ("profile_version", pl.Int64, "version of it that counts for the session"),
        ("card_id", pl.String, "current scorecard by it; null when there is none"),
        (
            "effective_100",
            pl.Float64,
            "0-100: the score that counts; null when there is none",
            BLIND,
        ),
        (
            "effective_source",
            pl.String,
            "override, scorecard, judge, composite, status or none",
            BLIND,
        ),
        ("scorings", pl.Int64, "scorings of the window by a judge, of any content and outcome"),
        ("judge_cost_usd", pl.Float64, "what they cost; null when a price is unknown"),
        ("content_hash", pl.String, "content that is booked"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)
