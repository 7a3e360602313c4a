"""Lift of masques: clean sessions of each masque compared with sessions without a masque.

The comparison is observational: people choose the masque and the task. Sessions are compared only
within an organization and a kind of task; mixed sessions and remainders are left out.
"""

import numpy as np
import polars as pl

from evaluation_pipelines.schemas import LIFT_MEASURES, MASQUE_LIFT, SESSION_KEY

CONFIDENCE = 0.95

_CLASS = ["organization_id", "task_class"]


def masque_lift(
    sessions: pl.DataFrame, performance: pl.DataFrame, min_sessions: int
) -> pl.DataFrame:
    """Return the differences of means, clean minus baseline sessions, with Welch's t interval.

    With means a and b, variances s2 and numbers n of the sessions in which a measure is known:
    se^2 = s2_a / n_a + s2_b / n_b. With the degrees of freedom of Welch and Satterthwaite,
    se^4 / ((s2_a / n_a)^2 / (n_a - 1) + (s2_b / n_b)^2 / (n_b - 1)), the interval is
    a - b +- t(0.975) * se. It assumes that sessions are independent.

    Args:
        sessions: Rows of ``agent_sessions`` that have ended.
        performance: Their rows of ``session_performance``.
        min_sessions: Minimum number of sessions on each side, at least 2; with fewer the
            difference is null.

    Returns:
        ``MASQUE_LIFT``: one row for each masque and kind of task with a clean session.
    """
    composites = performance.select(*SESSION_KEY, "composite")
    measured = sessions.join(composites, on=SESSION_KEY, how="left").select(
        *_CLASS,
        "masque",
        "attribution",
        "session_date",
        "composite",
        "active_s",
        failure_rate=pl.when(pl.col("total_tools") > 0).then(
            pl.col("tools_failed") / pl.col("total_tools")
        ),
        # Telemetry can claim any cost, and the sum of huge costs can be infinite.
        cost_usd=pl.when(pl.col("cost_usd").is_finite()).then("cost_usd"),
    )
    clean = _statistics(measured.filter(attribution="clean"), [*_CLASS, "masque"])
    baseline = _statistics(measured.filter(attribution="baseline"), _CLASS)
    pairs = clean.join(baseline, on=_CLASS, how="left", suffix="_b").with_columns(
        pl.col("^.*sessions_b$").fill_null(0)
    )
    compared = pairs.with_columns(
        column for measure in LIFT_MEASURES for column in _compare(pairs, measure, min_sessions)
    )
    return (
        compared.with_columns(
            baseline_sessions="sessions_b",
            first_date=pl.min_horizontal("first_date", "first_date_b"),
            last_date=pl.max_horizontal("last_date", "last_date_b"),
        )
        .select(MASQUE_LIFT.schema.names())
        .cast(MASQUE_LIFT.schema)
        .sort(MASQUE_LIFT.order)
    )


def _statistics(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return count, mean and variance of each measure over the sessions in which it is known."""
    return rows.group_by(by).agg(
        pl.len().cast(pl.Int64).alias("sessions"),
        pl.min("session_date").alias("first_date"),
        pl.max("session_date").alias("last_date"),
        *(pl.col(name).count().cast(pl.Int64).alias(f"{name}_sessions") for name in LIFT_MEASURES),
        *(pl.col(name).mean().alias(f"{name}_mean") for name in LIFT_MEASURES),
        *(pl.col(name).var().alias(f"{name}_variance") for name in LIFT_MEASURES),
    )


def _compare(pairs: pl.DataFrame, measure: str, min_sessions: int) -> list[pl.Expr | pl.Series]:
    """Return the columns of one measure; null if either side has too few sessions.

    Columns of ``pairs`` that end in ``_b`` are those of the baseline.
    """
    sessions, baseline_sessions = pl.col(f"{measure}_sessions"), pl.col(f"{measure}_sessions_b")
    smaller = pl.min_horizontal(sessions, baseline_sessions)
    is_shown = smaller >= min_sessions
    mean, baseline_mean = pl.col(f"{measure}_mean"), pl.col(f"{measure}_mean_b")
    difference = mean - baseline_mean
    margin = pl.lit(_margin(pairs, measure))
    shown = {
        f"{measure}_mean": mean,
        f"{measure}_baseline_mean": baseline_mean,
        f"{measure}_difference": difference,
        f"{measure}_low": difference - margin,
        f"{measure}_high": difference + margin,
    }
    return [
        baseline_sessions.alias(f"{measure}_baseline_sessions"),
        *(pl.when(is_shown).then(value).alias(name) for name, value in shown.items()),
        pl.when(is_shown)
        .then(pl.lit("shown"))
        .otherwise(pl.format("not yet: {} of {}", smaller, pl.lit(min_sessions)))
        .alias(f"{measure}_state"),
    ]


def _margin(pairs: pl.DataFrame, measure: str) -> pl.Series:
    """Return half the width of Welch's interval; null if either side has fewer than 2 sessions."""
    from scipy.special import stdtrit  # slow to import, and used only here

    n, m = (pairs[f"{measure}_sessions{side}"].to_numpy() for side in ("", "_b"))
    v, w = (pairs[f"{measure}_variance{side}"].to_numpy() for side in ("", "_b"))
    with np.errstate(all="ignore"):  # too few sessions, or no variance
        one, other = v / n, w / m
        squared = one + other
        freedom = squared**2 / (one**2 / (n - 1) + other**2 / (m - 1))
        margin = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(squared)
    margin = np.where(squared == 0, 0.0, margin)
    return pl.Series(margin, dtype=pl.Float64).fill_nan(None)
