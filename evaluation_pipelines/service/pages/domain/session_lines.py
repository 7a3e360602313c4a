"""What pages show of sessions: choices of filters, classes of the style sheet, columns of CSV."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import (
    AWAITS_JUDGE,
    NOT_SCORED,
    YELLOW_FROM,
    Badge,
    band,
)
from evaluation_pipelines.reporting.domain.book_states import title_of
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.domain.evaluation import why_low
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
    """Return that a session waits for the judge, is scored or failed; ``None`` for neither."""
    state = row["judge_badge"]
    if row["judge_total"] is not None or state in {None, NOT_SCORED}:
        return None
    return state.lower() if state == AWAITS_JUDGE else f"judge {state.lower()}"


def score_class(score: float | None) -> str:
    """Return the class of the style sheet that an effective score has."""
    return "unscored" if score is None else band(score)


def counted_on(row: Mapping[str, Any]) -> date | None:
    """Return the day on which a session is counted, if it started on another one.

    A later part of a session, under another masque, is of the day on which the session started.
    """
    day: date = row["session_date"]
    return day if day != row["started_at"].date() else None


_FAILED_STATUS = "failed"


@dataclass(frozen=True, slots=True)
class WorstSession:
    """A session that failed or has a red score; texts are not escaped."""

    organization: str
    session_key: str
    agent: str | None
    model: str | None
    status: str
    score: str
    score_class: str
    why: str | None


@dataclass(frozen=True, slots=True)
class WorstOfDay:
    """The worst sessions of a day; none if nothing failed and no score is red.

    Attributes:
        day: The day.
        is_yesterday: True if it is the last one.
        failed: Sessions that failed, whatever their score: what they were asked for is not done.
        low: The others, the lowest scores first.
        all_failed: Number of all that failed.
        all_low: Number of all whose score is red, failed ones included.
        waiting: Number of all whose score is not shown before their blind review.
    """

    day: date
    is_yesterday: bool
    failed: Sequence[WorstSession]
    low: Sequence[WorstSession]
    all_failed: int
    all_low: int
    waiting: int

    @property
    def groups(self) -> Sequence[tuple[str, Sequence[WorstSession]]]:
        """Heading and sessions of both, where there are any."""
        both = ((_FAILED, self.failed), (_LOW, self.low))
        return [(heading, sessions) for heading, sessions in both if sessions]


_FAILED = "Failed"
_LOW = "Lowest scores"
_REVIEW_DUE = "awaiting blind review"


def worst_of_day(rows: pl.DataFrame, today: date, number: int) -> WorstOfDay | None:
    """Return the worst sessions of the latest day before today; ``None`` if there is no such day.

    Those that failed come first, then the lowest scores, for which some room is kept. A session
    whose score is withheld is there if it failed, without its score.

    Args:
        rows: Rows of the session table, the newest first.
        today: The day that is not over.
        number: How many sessions at most.
    """
    day = rows.filter(pl.col("session_date") < today)["session_date"].max()
    if not isinstance(day, date):
        return None
    of_day = rows.filter(pl.col("session_date") == day)
    has_failed, is_low = pl.col("status") == _FAILED_STATUS, pl.col("effective_100") < YELLOW_FROM
    is_shown = ~pl.col(WAITS)
    worst_first = of_day.sort("effective_100", nulls_last=True, maintain_order=True)
    failed = worst_first.filter(has_failed)
    low = worst_first.filter(~has_failed, is_low, is_shown)
    failures = failed.head(number - min(low.height, number * 2 // 5))
    return WorstOfDay(
        day,
        day == today - timedelta(days=1),
        [_worst(row) for row in failures.iter_rows(named=True)],
        [_worst(row) for row in low.head(number - failures.height).iter_rows(named=True)],
        failed.height,
        of_day.filter(is_low, is_shown).height,
        of_day.filter(pl.col(WAITS)).height,
    )


def _worst(row: dict[str, Any]) -> WorstSession:
    score = None if row[WAITS] else row["effective_100"]
    return WorstSession(
        organization=row["organization_id"],
        session_key=row["session_key"],
        agent=row["agent_id"],
        model=row["model"],
        status=row["status"],
        score=points(score),
        score_class="unscored" if score is None else band(score),
        why=_REVIEW_DUE if row[WAITS] else why_low(row),
    )
