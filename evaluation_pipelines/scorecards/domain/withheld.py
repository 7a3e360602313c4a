"""What is not shown of a session while it waits for a blind review: everything that scored it."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY

SessionKey: TypeAlias = tuple[str, str]
"""(organization_id, session_key)"""

REVIEW_DUE = "awaiting review"
"""What tables of the terminal have in place of a score that is withheld."""

WAITS = "awaits_review"
"""Column that says whether the scores of a row are withheld."""

IS_SCORED = "is_scored"
"""Column that says whether a session has a score that counts, be it withheld or not."""

WITHHELD = frozenset(
    {
        # session_performance
        *("quality", "autonomy", "productivity", "token_efficiency", "cost_efficiency"),
        *("composite", "recommendation", "reason", "percentile_in_class"),
        # session_evaluations
        *(
            "effective_100",
            "effective_source",
            "provisional_100",
            "passed",
            "colour",
            "confidence",
            "quality_risk",
        ),
        *("override_100", "scorecard_100", "judge_total", "judge_live", "judge_flags"),
        *("disqualified", "automatic_100", "automatic_source", "score_100", "source", "annotator"),
        *("built_100", "built_judge_total"),
        # scorecards, overrides and tool reports
        *("overall_score", "criteria_scores", "fallback", "disqualifier_triggered", "reasoning"),
        *("human_override", "effective_score", "tool_effectiveness", "effectiveness_score"),
        "is_flagged",
        *("override_score", "automatic_score", "is_confirmation", "criterion_id"),
        # why a score is low
        *("worst_criterion", "worst_100", "judge_tags", "why"),
        # judge scores
        *("total_score", "failure_tags", "sample_totals", "sample_errors", "score_spread"),
        *("score_analysis", "missing_tools_analysis", "missing_tools_error", "failed_reply"),
        *("error_message", "inconsistent_total", "incomplete_criteria", "short_analysis"),
    }
)
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
    marked = rows.join(
        keys.with_columns(pl.lit(value=True).alias(WAITS)),
        on=SESSION_KEY,
        how="left",
        maintain_order="left",
    ).with_columns(pl.col(WAITS).fill_null(value=False))
    hidden = [name for name in rows.columns if name in WITHHELD]
    return marked.with_columns(pl.when(~pl.col(WAITS)).then(pl.col(hidden)).name.keep())


def without_scores(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a session that waits: fields of WITHHELD are null, at any depth."""
    return {name: None if name in WITHHELD else _inside(value) for name, value in row.items()}


def _inside(value: object) -> Any:
    match value:
        case Mapping():
            return without_scores(value)
        case list() | tuple():
            return [_inside(each) for each in value]
    return value
