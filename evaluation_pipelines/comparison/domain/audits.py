"""Automatic scores that people checked, and the corrected mean of each model."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.models import Row, spread_out
from evaluation_pipelines.comparison.domain.prediction_powered import (
    Audit,
    CorrectedMean,
    corrected_mean,
)
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.numerics.estimates import UNKNOWN

AUDITS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "label": pl.Float64(),
        "is_random": pl.Boolean(),
    }
)
"""One row per session and profile of the audit sample or with an override.

``label`` is the score by a person (0-100), null while a drawn session has no answer.
"""

_KEYS = ["organization_id", "session_key", "profile_id"]


def audits_of(overrides: pl.DataFrame, drawn: pl.DataFrame) -> pl.DataFrame:
    """Return AUDITS: the random sample with its answers, and overrides that people chose to make.

    Args:
        overrides: OVERRIDES; those of superseded content do not count.
        drawn: The audit samples, with ``organization_id``, ``session_key`` and ``profile_id``.
    """
    said = overrides.filter(pl.col("state") != "stale").sort("made_at", "override_id")
    answers = said.filter(pl.col("source") == "audit").unique(_KEYS, keep="last")
    asked = pl.concat([drawn.select(_KEYS), answers.select(_KEYS)]).unique()
    random = asked.join(answers.select(*_KEYS, label="override_100"), on=_KEYS, how="left")
    chosen = said.join(asked, on=_KEYS, how="anti").unique(_KEYS, keep="last")
    return (
        pl.concat(
            [
                random.with_columns(is_random=pl.lit(value=True)),
                chosen.select(*_KEYS, label="override_100", is_random=pl.lit(value=False)),
            ]
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
    scored = runs.filter(~pl.col("is_disqualified"))
    for row in rows:
        found = CorrectedMean(UNKNOWN)
        if row["effective_source"] == "scorecard":
            found = _correction(scored.filter(_same(row)), audits)
        naive = found.naive.value
        row |= {
            **spread_out("corrected_score", found.corrected),
            "naive_score": naive,
            "audited": None if naive is None else found.audited,
            "correction_reason": found.reason,
        }


def _same(row: Row) -> pl.Expr:
    """Return the runs of a row."""
    names = (*GROUP, *MODEL)
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in names)


def _correction(runs: pl.DataFrame, audits: pl.DataFrame) -> CorrectedMean:
    asked = runs.with_row_index("place").join(audits, on=_KEYS, how="inner").sort("place")
    drawn = asked.filter("is_random")
    answered = drawn.filter(pl.col("label").is_not_null())
    audit = Audit(
        places=answered["place"].to_list(),
        labels=answered["label"].to_list(),
        drawn=drawn.height,
        chosen=asked.height - drawn.height,
    )
    return corrected_mean(runs["score"].to_numpy().astype(np.float64), audit)
