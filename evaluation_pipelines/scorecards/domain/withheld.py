"""What is not shown of a session while it waits for a blind review: everything that scored it."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.schemas import AGENTS, SESSION_KEY, SESSIONS, TABLES

SessionKey: TypeAlias = tuple[str, str]
"""(organization_id, session_key)"""

REVIEW_DUE = "awaiting review"
"""Cell in place of a score that is withheld."""

WAITS = "awaits_review"
"""Column that says whether the scores of a row are withheld."""

IS_SCORED = "is_scored"
"""Column that says whether a session has an effective score, be it withheld or not."""

_FIELDS = frozenset(
    {
        *("score_100", "source", "annotator", "built_100", "built_judge_total"),
        *("automatic_score", "criteria_scores"),
        # why a score is low
        *("worst_criterion", "worst_100", "judge_tags"),
        # judge scores
        *("total_score", "failure_tags", "sample_totals", "sample_errors", "score_spread"),
        *("score_analysis", "missing_tools_analysis", "missing_tools_error", "failed_reply"),
        *("error_message", "inconsistent_total", "incomplete_criteria", "short_analysis"),
    }
)
"""Fields of records, and columns that are joined to explain a score."""

WITHHELD = _FIELDS | {
    column.name for table in (*TABLES, SESSIONS, AGENTS) for column in table.columns if column.blind
}
"""Columns of all tables, and fields of records, that tell how a session was scored."""


def withhold(rows: pl.DataFrame, waiting: Collection[SessionKey]) -> pl.DataFrame:
    """Return rows of sessions with WAITS; where it is true, the columns of WITHHELD are null.

    Args:
        rows: Rows with SESSION_KEY.
        waiting: Sessions that wait for a blind review.
    """
    if not waiting:
        return rows.with_columns(pl.lit(value=False).alias(WAITS))
    schema = dict.fromkeys(SESSION_KEY, pl.String())
    keys = pl.DataFrame(sorted(waiting), schema, orient="row")
    marked = rows.select(SESSION_KEY).join(
        keys.with_columns(pl.lit(value=True).alias(WAITS)),
        on=SESSION_KEY,
        how="left",
        maintain_order="left",
    )
    return hide(rows.with_columns(marked[WAITS].fill_null(value=False)))


def hide(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows whose columns of WITHHELD are null where WAITS is true."""
    hidden = [name for name in rows.columns if name in WITHHELD]
    return rows.with_columns(pl.when(~pl.col(WAITS)).then(pl.col(hidden)).name.keep())


def without_scores(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a session that waits: fields of WITHHELD are null, at any depth."""
    return {name: None if name in WITHHELD else _inside(value) for name, value in row.items()}


def _inside(value: object) -> Any:
    match value:
        case Mapping():
            return without_scores(value)
        case list() | tuple():
            return [_inside(item) for item in value]
    return value
