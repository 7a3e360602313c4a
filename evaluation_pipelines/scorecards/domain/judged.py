"""Scores of LLM judges as criteria of a profile: points become shares of the maximum."""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.badge import flag_names
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import CONTENT_KEY, SCORE_FLAGS, UTC_TIME
from evaluation_pipelines.schemas.judge_score import OPEN
from evaluation_pipelines.scorecards.domain.heuristics import score_column

JUDGE_RESULTS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "judge_profile_id": pl.String(),
        "judge_profile_version": pl.Int64(),
        "status": pl.String(),
        "total_score": pl.Float64(),
        "criteria_scores": pl.String(),
        "sample_totals": pl.String(),
        "score_analysis": pl.String(),
        "error_message": pl.String(),
        "completed_at": UTC_TIME,
        "judge_model": pl.String(),
        **dict.fromkeys(SCORE_FLAGS, pl.Boolean()),
    }
)
"""Columns of ``judge_scores`` that are read: one row per scoring, JSON as text, totals 0-100.

The status ``flagged`` is that of a completed score that does not count."""

DEFAULT_CONFIDENCE = 0.7
MIN_SAMPLES_FOR_SPREAD = 3
"""Number of samples from which on their spread determines the confidence."""


def completed(results: pl.DataFrame) -> pl.DataFrame:
    """Return the newest completed score of each session content and profile version."""
    by = [*CONTENT_KEY, "judge_profile_id", "judge_profile_version"]
    return (
        results.filter(pl.col("status") == "completed")
        .sort([*by, "completed_at"])
        .unique(by, keep="last", maintain_order=True)
    )


def newest_totals(results: pl.DataFrame) -> pl.DataFrame:
    """Return the judge's newest total of each content.

    Returns:
        CONTENT_KEY, ``judge_total`` (0-100), ``judge_total_model`` and ``judge_total_flags``.
    """
    return (
        completed(results)
        .sort([*CONTENT_KEY, "completed_at", "judge_profile_id", "judge_profile_version"])
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(
            *CONTENT_KEY,
            judge_total="total_score",
            judge_total_model="judge_model",
            judge_total_flags=flag_names(),
        )
    )


def judged_scores(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """Return the judged criteria of a profile version.

    Only scores by this version count. A criterion that the judge left out is null.

    Args:
        profile: One version.
        results: JUDGE_RESULTS of any profiles.

    Returns:
        CONTENT_KEY, the :func:`score_column` of each judged criterion (0 to 1),
        ``judge_confidence``, ``analysis``, ``judge_model`` and ``judge_flags``.
    """
    scores = completed(results).filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
    )
    points = profile.judge_points
    given = [_decoded(each) for each in scores["criteria_scores"]]
    confidences = [confidence(_decoded(each) or []) for each in scores["sample_totals"]]
    return scores.select(
        *CONTENT_KEY,
        *(_shares(name, max_points, given) for name, max_points in points.items()),
        pl.Series("judge_confidence", confidences, pl.Float64),
        "judge_model",
        flag_names(),
        analysis="score_analysis",
    )


def confidence(sample_totals: Sequence[float]) -> float:
    """Return the confidence of a judge: 0.7, or with three or more samples by their spread.

    ``clamp(1 - spread / 50, 0.3, 0.95)``; the spread is the sample standard deviation of the
    totals, as in the conversation with the judge.
    """
    if len(sample_totals) < MIN_SAMPLES_FOR_SPREAD:
        return DEFAULT_CONFIDENCE
    return min(max(1 - statistics.stdev(sample_totals) / 50, 0.3), 0.95)


def why_not_judged(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """Return why a profile version has no judge score of some contents.

    Returns:
        CONTENT_KEY, ``judge_reason`` and ``under_way`` (true if the scoring is not finished).
    """
    unfinished = results.filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
        pl.col("status") != "completed",
    )
    status = pl.col("status")
    is_open = status.is_in(OPEN)
    failed = pl.format("the judge failed: {}", pl.col("error_message").fill_null("no reason given"))
    return (
        unfinished.sort(*CONTENT_KEY, "completed_at", nulls_last=True)
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(
            *CONTENT_KEY,
            judge_reason=pl.when(is_open)
            .then(pl.lit("judging is in progress"))
            .when(status == "flagged")
            .then("error_message")
            .otherwise(failed),
            under_way=is_open,
        )
    )


def _shares(name: str, max_points: int, given: Sequence[Mapping[str, Any] | None]) -> pl.Series:
    values = [None if each is None else each.get(name) for each in given]
    shares = [None if each is None else min(max(each / max_points, 0.0), 1.0) for each in values]
    return pl.Series(score_column(name), shares, pl.Float64)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
