"""What LLM judges said, as criteria of a profile: points become shares of what was possible."""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.scorecards.domain.heuristics import score_column

KEYS = ["organization_id", "session_key", "content_hash"]

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
    }
)
"""What is read of ``judge_scores``: one row per scoring, JSON as text, totals 0-100."""

ONE_SAMPLE_CONFIDENCE = 0.7
SMALLEST_SPREAD = 3
"""From so many samples on, their spread says how sure the judge is."""


def completed(results: pl.DataFrame) -> pl.DataFrame:
    """The newest completed score of each session, content and profile version."""
    by = [*KEYS, "judge_profile_id", "judge_profile_version"]
    return (
        results.filter(pl.col("status") == "completed")
        .sort([*by, "completed_at"])
        .unique(by, keep="last", maintain_order=True)
    )


def newest_totals(results: pl.DataFrame) -> pl.DataFrame:
    """The judge's newest total of each session and content: KEYS, ``judge_total`` (0-100)."""
    return (
        completed(results)
        .sort([*KEYS, "completed_at", "judge_profile_id", "judge_profile_version"])
        .unique(KEYS, keep="last", maintain_order=True)
        .select(*KEYS, judge_total="total_score")
    )


def judged_scores(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """KEYS, each judged criterion of a profile as 0 to 1, ``judge_confidence``, ``analysis``.

    Only scores of this very version count. A criterion that the judge left out is null.

    Args:
        profile: one version.
        results: JUDGE_RESULTS of any profiles.
    """
    own = completed(results).filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
    )
    points = profile.judge_points
    given = [_decoded(each) for each in own["criteria_scores"]]
    confidences = [confidence(_decoded(each) or []) for each in own["sample_totals"]]
    return own.select(
        *KEYS,
        *(_shares(name, most, given) for name, most in points.items()),
        pl.Series("judge_confidence", confidences, pl.Float64),
        analysis="score_analysis",
    )


def confidence(sample_totals: Sequence[float]) -> float:
    """How sure a judge is: 0.7, from three samples on by their spread.

    ``clamp(1 - spread / 50, 0.3, 0.95)``, the spread being the standard deviation of the totals
    (that of a sample, as the conversation with the judge has it).
    """
    if len(sample_totals) < SMALLEST_SPREAD:
        return ONE_SAMPLE_CONFIDENCE
    return min(max(1 - statistics.stdev(sample_totals) / 50, 0.3), 0.95)


def why_not_judged(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """KEYS, ``judge_reason``, ``under_way`` of scorings of a profile version that gave no score."""
    own = results.filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
        pl.col("status") != "completed",
    )
    failed = pl.col("status") == "failed"
    why = pl.format("the judge failed: {}", pl.col("error_message").fill_null("no reason given"))
    return (
        own.sort(*KEYS, "completed_at", nulls_last=True)
        .unique(KEYS, keep="last", maintain_order=True)
        .select(
            *KEYS,
            judge_reason=pl.when(failed).then(why).otherwise(pl.lit("the judge is at work")),
            under_way=~failed,
        )
    )


def _shares(name: str, most: int, given: Sequence[Mapping[str, Any] | None]) -> pl.Series:
    values = [None if each is None else each.get(name) for each in given]
    shares = [None if each is None else min(max(each / most, 0.0), 1.0) for each in values]
    return pl.Series(score_column(name), shares, pl.Float64)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
