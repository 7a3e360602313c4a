"""Checks of the tables of a comparison."""

from dataclasses import replace

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison, coverage
from evaluation_pipelines.comparison.domain.models import name_of
from evaluation_pipelines.formatting import listed, signed
from evaluation_pipelines.schemas import MODEL_COMPARISON, MODEL_COMPARISON_PAIRS
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult, keys_are_unique

_ROUNDING = 1e-6


def models_and_pairs_stand_once(found: Comparison) -> CheckResult:
    """No model has two rows in a group, and no pair either."""
    models = keys_are_unique(found.models, MODEL_COMPARISON)
    pairs = keys_are_unique(found.pairs, MODEL_COMPARISON_PAIRS)
    broken = pairs if models.passed else models
    return replace(broken, table=MODEL_COMPARISON.name, rule="models_and_pairs_stand_once")


def figures_lie_in_their_intervals(found: Comparison) -> CheckResult:
    """Every figure lies between the ends of its interval, and every mean score in 0-100."""
    names = [
        name
        for name in found.models.columns
        if f"{name}_low" in found.models.columns and name != "corrected_score"
    ]
    outside = pl.any_horizontal(
        (pl.col(name) < pl.col(f"{name}_low") - _ROUNDING)
        | (pl.col(name) > pl.col(f"{name}_high") + _ROUNDING)
        for name in names
    ) | ~pl.col("avg_score").is_between(0, 100)
    wrong = found.models.filter(outside).rows(named=True)
    return CheckResult(
        rule="figures_lie_in_their_intervals",
        table=MODEL_COMPARISON.name,
        severity="error",
        passed=not wrong,
        expected="every figure between the ends of its interval",
        found=f"{len(wrong)} rows with a figure outside",
        examples=tuple(name_of(row) for row in wrong[:EXAMPLES]),
    )


def every_session_is_accounted_for(found: Comparison) -> CheckResult:
    """Runs, disqualified and unscored sessions add up to all sessions of the time range."""
    counted = int(found.models.select(pl.sum("runs") + pl.sum("disqualified")).item())
    unscored = sum(row["sessions"] for row in coverage(found) if row["what"] == "no score")
    return CheckResult(
        rule="every_session_is_accounted_for",
        table=MODEL_COMPARISON.name,
        severity="error",
        passed=counted + unscored == found.runs.height,
        expected=f"{found.runs.height} session windows",
        found=f"{counted} in rows and {unscored} without a score",
        examples=(),
    )


def no_model_got_worse(found: Comparison) -> CheckResult:
    """The regression watch has no alert."""
    alerts = found.regressions.filter(pl.col("state") == "alert").rows(named=True)
    named = [f"{name_of(row)} ({row['classification_label']})" for row in alerts]
    return CheckResult(
        rule="no_model_got_worse",
        table="model_regressions",
        severity="warning",
        passed=not alerts,
        expected="no model that is lower by 3 points than the 90 days before let expect",
        found=f"{listed(named)} got worse" if alerts else "none",
        examples=tuple(
            f"{name}: {signed(row['change'])} points since {row['window_since']:%Y-%m-%d}"
            for name, row in zip(named, alerts, strict=True)
        ),
    )


CHECKS = (
    models_and_pairs_stand_once,
    figures_lie_in_their_intervals,
    every_session_is_accounted_for,
    no_model_got_worse,
)
