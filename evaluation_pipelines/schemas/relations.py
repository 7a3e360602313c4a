"""Lists as people and programs read them: joined from tables and from the ledger."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import polars as pl

from evaluation_pipelines.formatting import minute, percent, points, signed, tokens, usd, whole
from evaluation_pipelines.schemas.judge_score import shown_badge
from evaluation_pipelines.schemas.reputation import AGENT_SCORES, REPUTATION_SCORES
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES, SESSION_EVALUATIONS
from evaluation_pipelines.schemas.sessions import AGENT_SESSIONS, RANKED_PERFORMANCE
from evaluation_pipelines.schemas.table import BLIND, UTC_TIME, WINDOW, Column, More, Table, columns

EVALUATED = (
    *("effective_100", "effective_source", "provisional_100", "passed", "colour", "confidence"),
    "quality_risk",
    *("profile_id", "profile_version", "card_id", "override_100", "scorecard_100"),
    *("automatic_100", "automatic_source", "disqualified", "excluded_by"),
)
"""Columns of SESSION_EVALUATIONS in SESSIONS, by the same name."""


_SHOWN: Mapping[str, More] = {
    "organization_id": {"label": "Organization"},
    "person_id": {"label": "Person"},
    "agent_id": {"label": "Agent"},
    "source_cli": {"label": "Program"},
    "classification_label": {"label": "Label"},
    "started_at": {"label": "Started", "text": minute},
    "total_tools": {"label": "Calls", "text": whole},
    "tools_failed": {"label": "Failed calls", "text": whole},
    "total_tokens": {"label": "Tokens", "text": tokens},
    "cost_usd": {"label": "Cost", "text": usd},
    "effective_100": {"label": "Score", "text": points},
    "provisional_100": {"text": points},
    "effective_source": {"label": "Source", "text": EFFECTIVE_SOURCES.__getitem__},
    "judge_badge": {"text": shown_badge},
    "judge_total": {"label": "Judge", "text": points},
    "composite": {"text": points},
    "tools_per_prompt": {"text": points},
    "outcome": {"label": "Outcome"},
    "score": {"label": "Rating", "text": whole},
    "lifecycle": {"label": "Stage"},
    "change": {"label": "30-day change", "text": partial(signed, decimals=0)},
    "pass_rate": {"label": "Passed", "text": percent},
    "pass_rate_low": {"text": percent},
    "pass_rate_high": {"text": percent},
    "overall_score": {"label": "Reputation", "text": partial(signed, decimals=2)},
    "total_events": {"label": "Signals", "text": whole},
}
"""Headings and formats of columns that people see; others are shown as they are."""


def _each_once(*rows: Column) -> tuple[Column, ...]:
    """Return columns as they are shown, without those whose name came before."""
    found: dict[str, Column] = {}
    for row in rows:
        found.setdefault(row.name, replace(row, **_SHOWN.get(row.name, {})))
    return tuple(found.values())


SESSIONS = Table(
    name="sessions",
    grain="one row per session window: its work, and its scores as they are now",
    key=("organization_id", "session_key"),
    columns=_each_once(
        *AGENT_SESSIONS.columns,
        *RANKED_PERFORMANCE.columns,
        *(column for column in SESSION_EVALUATIONS.columns if column.name in EVALUATED),
        *columns(
            ("tools_per_prompt", pl.Float64, "tool calls per prompt, null when either is unknown"),
            ("commit", pl.Boolean, "it made a commit, null without a known one"),
            ("merged", pl.Boolean, "a commit of it, or work it was reported for, was merged"),
            ("reverted", pl.Boolean, "of merged work: it was reverted"),
            ("survival_7d", pl.Float64, "0-1: share of its lines alive 7 days after the merge"),
            (
                "tests_after_last_edit",
                pl.String,
                "passed, failed or none, null without an edit or a known result",
            ),
            ("outcome", pl.String, "these five in words, null without any"),
            ("unscored_reason", pl.String, "why there is no scorecard, else null", BLIND),
            ("automatic_judge_model", pl.String, "model that judged automatic_100, else null"),
            ("state", pl.String, "state in the books of its day, null without books"),
            ("state_reason", pl.String, "why it is in that state", BLIND),
            ("judge_badge", pl.String, "judge score with its band, or the state of judging", BLIND),
            ("judge_total", pl.Float64, "0-100: latest judge score of this content", BLIND),
            ("judge_model", pl.String, "model that judges, null if it was never judged"),
            ("judge_flags", pl.List(pl.String), "flags of that judgment", BLIND),
            ("has_ended", pl.Boolean, "it had ended when this was read"),
            ("why", pl.String, "why it failed, or has a low score or none, else null", BLIND),
            (
                "awaits_review",
                pl.Boolean,
                "its scores are withheld from the reader until its blind review",
            ),
        ),
    ),
)
"""The relation of sessions: stored by date as far as a build knows it, joined when it is read."""

AGENTS = Table(
    name="agents",
    grain="one row per agent: its rating over evaluations, and its reputation by signals",
    key=AGENT_SCORES.key,
    columns=_each_once(
        *AGENT_SCORES.columns,
        *columns(("change", pl.Int64, "score minus score_30d_ago", BLIND)),
        *(column for column in REPUTATION_SCORES.columns if not column.name.endswith("d_ago")),
        *columns(
            (
                "awaits_review",
                pl.Boolean,
                "one of its sessions awaits the reader's review: its reputation is withheld",
            ),
        ),
    ),
)
"""The relation of agents: as last refreshed, with evaluations that came later."""

ALERTS = Table(
    name="alerts",
    grain="one row per alert, ended ones included",
    key=("alert_id",),
    columns=columns(
        ("alert_id", pl.Int64, "grows"),
        ("kind", pl.String, "what sort of thing happened"),
        ("cause", pl.String, "which one: the same is raised once"),
        ("title", pl.String, "what happened, in a line"),
        ("text", pl.String, "where, and what to do"),
        ("raised_at", UTC_TIME, "when it was noticed"),
        ("sent_at", UTC_TIME, "when the webhook took it, null: not yet"),
        ("ended_at", UTC_TIME, "when it ended, null while it lasts"),
    ),
)
"""The relation of alerts: read from the ledger."""

EXTERNAL_EVALUATIONS = Table(
    has_texts=True,
    name="external_evaluations",
    grain="one row per evaluation of a session, trace or agent by another program",
    key=("organization_id", "evaluation_id"),
    order=("organization_id", "evaluated_at", "evaluation_id"),
    columns=columns(
        ("evaluation_id", pl.String, "UUID: id of its event"),
        ("organization_id", pl.String, "organization"),
        ("session_id", pl.String, "session, also by its trace, null of an agent alone"),
        ("agent_id", pl.String, "agent that it names, null: that of the session"),
        ("name", pl.String, "name of the evaluation"),
        ("value", pl.Float64, "the score on a scale of the other program"),
        ("label", pl.String, "its label"),
        ("passed", pl.Boolean, "true of pass, passed, true or yes, false of fail and so on"),
        ("explanation", pl.String, "why"),
        ("evaluator", pl.String, "id or source of the evaluator, with its version"),
        ("error_type", pl.String, "why there is no score"),
        ("source", pl.String, "service.name of the sender"),
        ("evaluated_at", UTC_TIME, "when"),
    ),
)
"""Evaluations by other programs, read from their events."""

EVALUATION_EVENTS = Table(
    has_texts=True,
    name="evaluation_events",
    grain="one row per new or changed evaluation of a session window",
    key=("event_id",),
    order=("position", "name"),
    columns=columns(
        ("event_id", pl.String, "UUID of session, name and position: the same when sent again"),
        ("position", pl.Int64, "grows: the greatest of a session and name counts"),
        *(column for column in WINDOW if column[0] != "masque"),
        ("session_date", pl.Date, "partition of the session"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        (
            "name",
            pl.String,
            "session.effective, override, judge.total, or after judge., scorecard., failure_tag.",
        ),
        ("value", pl.Float64, "the score, null of a failure tag", BLIND),
        ("lowest", pl.Float64, "lowest score on its scale"),
        ("highest", pl.Float64, "highest score on its scale, null if unknown"),
        (
            "label",
            pl.String,
            "keep, review or doff of a masque, else pass or fail. withdrawn: it no longer counts",
            BLIND,
        ),
        ("explanation", pl.String, "why, null unless text may leave", BLIND),
        ("evaluator_id", pl.String, "judge model, profile or pseudonym of a person", BLIND),
        ("evaluator_version", pl.String, "profile version and hash of the prompt", BLIND),
        ("evaluator_type", pl.String, "llm, human or code", BLIND),
        ("evaluated_at", UTC_TIME, "when it was made, null of a withdrawn one"),
        ("noted_at", UTC_TIME, "when it was noted here"),
        ("trace_id", pl.String, "trace of the session's root span, if it sent spans"),
        ("span_id", pl.String, "its root span"),
    ),
)
"""Evaluations for other programs, as they are noted in the outbox."""
