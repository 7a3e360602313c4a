"""What pages show of sessions: choices of filters, classes of the style sheet, columns of CSV."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.badge import NOT_SCORED, Badge, band
from evaluation_pipelines.reporting.domain.book_states import title_of
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.sessions.domain.session_filter import short_names
from evaluation_pipelines.views.filters import LIST_COLUMNS

_MOST_CHOICES = 300

CSV_COLUMNS: Sequence[str] = (
    *("started_at", "organization_id", "session_key", "person_id", "team", "repository"),
    *("environment", "agent_id", "source_cli", "model", "model_variant", "classification_label"),
    *("status", "judge_total", "effective_100", "effective_source", "provisional_100"),
    *(
        "composite",
        "recommendation",
        "why",
        "cost_usd",
        "total_tokens",
        "active_s",
        "total_tools",
        "tools_failed",
        WAITS,
    ),
)
"""Columns of a downloaded list, as in the analysts' database."""


def choices_of(rows: pl.DataFrame, names: Collection[str]) -> dict[str, list[str]]:
    """Return the values of some filters, each in alphabetical order; very many are left out."""
    found = {name: rows[LIST_COLUMNS[name]].unique().drop_nulls().sort() for name in names}
    return {name: values.head(_MOST_CHOICES).to_list() for name, values in found.items()}


def options_of(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Return the values of a filter, each with how it is shown."""
    if name == "repository":
        shown = short_names(values)
    elif name == "state":
        shown = {value: title_of(value) for value in values}
    else:
        shown = EFFECTIVE_SOURCES if name == "source" else {}
    return [(value, shown.get(value, value)) for value in values]


def badge_class_of(judged: Badge) -> str:
    """Return the class of the style sheet that a badge of the judge has."""
    if judged.total is not None:
        return band(judged.total)
    return "red" if judged.text == "Failed" else "unscored"


def judge_state(row: Mapping[str, Any]) -> str | None:
    """Return that judging a session runs or failed; ``None`` if there is nothing to say of it."""
    is_shown = row["judge_total"] is None and row["judge_badge"] not in {None, NOT_SCORED}
    return str(row["judge_badge"]).lower() if is_shown else None


def score_class(score: float | None) -> str:
    """Return the class of the style sheet that an effective score has."""
    return "unscored" if score is None else band(score)


def counted_on(row: Mapping[str, Any]) -> date | None:
    """Return the day on which a session is counted, if it started on another one.

    A later part of a session, under another masque, is of the day on which the session started.
    """
    day: date = row["session_date"]
    return day if day != row["started_at"].date() else None
