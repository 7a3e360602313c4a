"""Checks of the scores of identities and agents."""

import polars as pl

from evaluation_pipelines.reputation.domain.agent_score import CALIBRATED_AT, WINDOW_SIZE
from evaluation_pipelines.schemas import AGENT_SCORES, REPUTATION_SCORES
from evaluation_pipelines.schemas.table import CheckResult, examples_of

_SIGNED = (
    "overall_score",
    "task_quality_score",
    "economic_score",
    "identity_hygiene_score",
    "score_7d_ago",
    "score_30d_ago",
    "overall_observed",
    "weighted_overall",
)


def reputation_is_in_range(scores: pl.DataFrame) -> CheckResult:
    """Every score is from -1 to 1 (or null), confidence from 0 to 1, no more signs than signals."""
    signed = [pl.col(name).is_null() | pl.col(name).is_between(-1, 1) for name in _SIGNED]
    counted = pl.col("positive_events") + pl.col("negative_events") <= pl.col("total_events")
    fits = pl.all_horizontal(*signed, pl.col("confidence").is_between(0, 1), counted)
    broken = scores.filter(~fits.fill_null(value=False)).select("identity_id", *_SIGNED[:4])
    return CheckResult(
        REPUTATION_SCORES.name,
        "reputation_is_in_range",
        broken.is_empty(),
        "scores from -1 to 1, confidence from 0 to 1",
        f"{broken.height} identities outside",
        examples_of(broken),
    )


def agent_scores_are_in_range(scores: pl.DataFrame) -> CheckResult:
    """Scores are from 0 to 1000 where there are enough evaluations and null where there are not."""
    score, rate = pl.col("score"), pl.col("pass_rate")
    calibrated = pl.col("evaluations_in_all") >= CALIBRATED_AT
    fits = pl.all_horizontal(
        pl.when(calibrated).then(score.is_between(0, 1000)).otherwise(score.is_null()),
        rate.is_between(0, 1),
        pl.col("eval_count").is_between(1, WINDOW_SIZE),
        pl.col("streak").is_between(0, pl.col("eval_count")),
    )
    key = AGENT_SCORES.key
    broken = scores.filter(~fits.fill_null(value=False)).select(*key, "score", "lifecycle")
    return CheckResult(
        AGENT_SCORES.name,
        "agent_scores_are_in_range",
        broken.is_empty(),
        f"0 to 1000 from {CALIBRATED_AT} evaluations on, null below",
        f"{broken.height} agents outside",
        examples_of(broken),
    )
