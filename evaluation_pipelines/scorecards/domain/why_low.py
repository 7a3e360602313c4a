"""Why a session has a low score or none, or failed, in one line of plain words."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import YELLOW_FROM
from evaluation_pipelines.schemas import CONTENT_KEY
from evaluation_pipelines.scorecards.domain.criterion_words import criterion_name
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

DIMENSIONS = ("quality", "autonomy", "productivity", "token_efficiency", "cost_efficiency")

CARD_COLUMNS = ("card_id", "scale_min", "scale_max", "criteria_scores", "disqualifier_triggered")
"""Columns of SCORECARDS that :func:`worst_criteria` needs."""

TAG_COLUMNS = (*CONTENT_KEY, "completed_at", "failure_tags")
"""Columns of JUDGE_SCORES that :func:`judge_tags` needs."""

_MOST_TAGS = 2
_MANY_FAILED = 0.25


def worst_criteria(cards: pl.DataFrame) -> pl.DataFrame:
    """Return ``card_id``, its lowest criterion, that score as 0-100, and the disqualifier.

    Args:
        cards: CARD_COLUMNS of SCORECARDS.
    """
    scores = cards.select("card_id", "scale_min", "scale_max", "criteria_scores")
    each = scores.explode("criteria_scores").unnest("criteria_scores")
    span = pl.col("scale_max") - pl.col("scale_min")
    lowest = (
        each.filter(pl.col("value").is_not_null(), span > 0)
        .with_columns(worst_100=100 * (pl.col("value") - pl.col("scale_min")) / span)
        .sort("card_id", "worst_100", "key")
        .unique("card_id", keep="first")
        .select("card_id", "worst_100", worst_criterion="key")
    )
    found = cards.select("card_id", "disqualifier_triggered")
    return found.join(lowest, on="card_id", how="left")


def judge_tags(scores: pl.DataFrame) -> pl.DataFrame:
    """Return CONTENT_KEY and ``judge_tags``: what the newest judgment found wrong, with commas.

    Args:
        scores: TAG_COLUMNS of JUDGE_SCORES.
    """
    tags = pl.col("failure_tags").list.head(_MOST_TAGS).list.join(", ").str.replace_all("_", " ")
    return (
        scores.filter(pl.col("failure_tags").list.len() > 0)
        .sort("completed_at", nulls_last=False)
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(*CONTENT_KEY, judge_tags=tags)
    )


def needs_reason() -> pl.Expr:
    """Return whether :func:`why_low` says something: failed, or a red score, or none."""
    score = pl.col("effective_100")
    return (pl.col("status") == "failed") | (score < YELLOW_FROM) | score.is_null()


def why_low(row: Mapping[str, Any]) -> str | None:
    """Return why a session has a low score or none, or failed; ``None`` if nothing is so.

    Args:
        row: Stored columns of SESSIONS, and those of :func:`worst_criteria` and
            :func:`judge_tags`.
    """
    score = row["effective_100"]
    if row["status"] == "failed":
        by_person = _corrected(row) if row["effective_source"] == "override" else None
        return _joined(_failed(row), by_person, _failed_calls(row))
    if score is None:
        reason: str | None = row["state_reason"]
        return reason
    if score >= YELLOW_FROM:
        return None
    if row["effective_source"] == "override":
        return _corrected(row)
    if row["disqualified"]:
        return f"disqualified: {row['disqualifier_triggered'] or 'by an unknown rule'}"
    # What a judge found wrong explains no score that it has no part in.
    tags = row["judge_tags"] if row["automatic_judge_model"] is not None else None
    return _joined(_worst(row), tags, _failed_calls(row))


def _corrected(row: Mapping[str, Any]) -> str:
    """Say what a person made of the automatic score; their reason is a text, and not for all."""
    said, before = f"human score {points(row['effective_100'])}", row["automatic_100"]
    return f"{said} (automatic: {'none' if before is None else points(before)})"


def _failed(row: Mapping[str, Any]) -> str:
    return f"failed{model_api_errors(row)}{_what_failing_means(row)}"


def model_api_errors(row: Mapping[str, Any]) -> str:
    """Return the model API errors of a session in parentheses, after a space; or nothing."""
    errors = row["api_errors"]
    return f" ({errors} model API error{'' if errors == 1 else 's'})" if errors else ""


def _what_failing_means(row: Mapping[str, Any]) -> str:
    """Say what failing does to the score, where the score alone would look wrong."""
    if row["effective_source"] == "status":
        return " without any tool result: score 0"
    if row["effective_source"] != "override" and (row["effective_100"] or 0) >= PASSES_FROM:
        return ", so not passed despite its score"
    return ""


def _worst(row: Mapping[str, Any]) -> str | None:
    if row["effective_source"] == "scorecard" and row["worst_criterion"] is not None:
        return f"{criterion_name(row['worst_criterion']).lower()} {row['worst_100']:.0f} of 100"
    if row["effective_source"] == "judge":
        return "judge score only"
    known = [(row[name], name) for name in DIMENSIONS if row[name] is not None]
    if not known:
        return None
    value, name = min(known)
    return f"{name.replace('_', ' ')} {value:.1f} of 10"


def _failed_calls(row: Mapping[str, Any]) -> str | None:
    failed, calls = row["tools_failed"], row["total_tools"]
    if not failed or failed < _MANY_FAILED * calls:
        return None
    return f"{failed} of {calls} calls failed"


def _joined(*parts: str | None) -> str | None:
    return " · ".join(each for each in parts if each) or None
