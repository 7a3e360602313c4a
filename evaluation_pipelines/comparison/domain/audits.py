"""Automatic scores that people checked, and the corrected mean of each model."""

from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.comparison.domain.corrected_mean import (
    Audit,
    CorrectedMean,
    corrected_mean,
)
from evaluation_pipelines.comparison.domain.models import Row, spread_out
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.numerics.estimates import UNKNOWN, Numbers

AUDITS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "label": pl.Float64(),
        "is_random": pl.Boolean(),
        "inclusion_probability": pl.Float64(),
        "session_date": pl.Date(),
    }
)
"""One row per session and profile of the audit sample or with an override.

``label`` is the score by a person (0-100), null while a drawn session has no answer. Date and
probability are those of the draw, null where they are unknown.
"""

_KEYS = ["organization_id", "session_key", "profile_id"]


def audits_of(overrides: pl.DataFrame, drawn: pl.DataFrame) -> pl.DataFrame:
    """Return AUDITS: the random sample with its answers, and overrides that people chose to make.

    Args:
        overrides: OVERRIDES; those of superseded content do not count.
        drawn: The audit samples: ``organization_id``, ``session_key``, ``profile_id``,
            ``inclusion_probability`` and ``session_date``.
    """
    said = overrides.filter(pl.col("state") != "stale").sort("made_at", "override_id")
    answers = said.filter(pl.col("source") == "audit").unique(_KEYS, keep="last")
    asked = (
        pl.concat([drawn, answers.select(_KEYS)], how="diagonal")
        .sort("inclusion_probability", nulls_last=True)
        .unique(_KEYS, keep="first")
    )
    random = asked.join(answers.select(*_KEYS, label="override_100"), on=_KEYS, how="left")
    chosen = said.join(asked, on=_KEYS, how="anti").unique(_KEYS, keep="last")
    return (
        pl.concat(
            [
                random.with_columns(is_random=pl.lit(value=True)),
                chosen.select(*_KEYS, label="override_100", is_random=pl.lit(value=False)),
            ],
            how="diagonal",
        )
        .select(AUDITS.names())
        .cast(AUDITS)
        .sort(_KEYS)
    )


def correct(rows: Sequence[Row], runs: pl.DataFrame, audits: pl.DataFrame) -> None:
    """Add the corrected mean to rows whose scores are those of a judge profile.

    Args:
        rows: Rows of ``model_comparison``.
        runs: RUNS of the same time range.
        audits: AUDITS.
    """
    counted = runs.filter(~pl.col("is_disqualified"))
    for row in rows:
        found = None
        if row["effective_source"] == "scorecard" and row["runs"]:
            found = _correction(counted.filter(_same(row)), audits)
        row.update(_columns(found))


def _columns(found: CorrectedMean | None) -> Row:
    if found is None:
        names = ("corrected_score_lowest", "corrected_score_highest", "naive_score", "audited")
        empty: Row = dict.fromkeys((*names, "unanswered", "correction_reason"))
        return empty | spread_out("corrected_score", UNKNOWN)
    return {
        **spread_out("corrected_score", found.corrected),
        "corrected_score_lowest": found.lowest,
        "corrected_score_highest": found.highest,
        "naive_score": found.naive,
        "audited": found.audited,
        "unanswered": found.unanswered,
        "correction_reason": found.reason,
    }


def _same(row: Row) -> pl.Expr:
    """Return the runs of a row."""
    names = (*GROUP, *MODEL)
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in names)


def _correction(runs: pl.DataFrame, audits: pl.DataFrame) -> CorrectedMean:
    # The score of a run that failed at the start is what happened, not a judgment.
    judged = runs.filter(~pl.col("failed_at_start"))
    asked = judged.join(audits, on=_KEYS, how="inner", maintain_order="left")
    is_known = pl.col("inclusion_probability").is_not_null()
    drawn = asked.filter("is_random", is_known)
    dates = audits.filter(is_known)["session_date"].unique()
    could_be_drawn = judged["started_at"].dt.date().is_in(dates.implode())
    audit = Audit(
        automatic=_numbers(drawn, "score"),
        labels=_numbers(drawn, "label"),
        probabilities=_numbers(drawn, "inclusion_probability"),
        others=asked.filter("is_random", ~is_known, pl.col("label").is_not_null()).height,
        chosen=asked.filter(~pl.col("is_random")).height,
        coverage=float(could_be_drawn.sum()) / max(judged.height, 1),
    )
    return corrected_mean(_numbers(runs, "score"), audit, judged.height / runs.height)


def _numbers(frame: pl.DataFrame, name: str) -> Numbers:
    return frame[name].cast(pl.Float64).to_numpy()
