"""Lift: what a masque is worth, by its clean sessions beside those without a masque.

Observational: people choose the masque and the task. Sessions are compared within an organization
and a kind of task only, and mixed sessions and remainders are left out.
"""

import numpy as np
import polars as pl

from evaluation_pipelines.schemas import LIFT_MEASURES, MASQUE_LIFT

CONFIDENCE = 0.95

_CLASS = ["organization_id", "task_class"]


def masque_lift(sessions: pl.DataFrame, performance: pl.DataFrame, fewest: int) -> pl.DataFrame:
    """Differences of the means, clean sessions minus baseline sessions, with Welch's t interval.

    With means a and b, variances s2 and numbers n of the sessions in which a measure is known:
    se^2 = s2_a / n_a + s2_b / n_b, and with the degrees of freedom of Welch and Satterthwaite,
    se^4 / ((s2_a / n_a)^2 / (n_a - 1) + (s2_b / n_b)^2 / (n_b - 1)), the interval is
    a - b +- t(0.975) * se. It supposes that sessions do not depend on each other.

    Args:
        sessions: Rows of ``agent_sessions``, ended ones.
        performance: Their rows of ``session_performance``.
        fewest: Sessions that each side must have, at least 2; with fewer there is no difference.

    Returns:
        ``MASQUE_LIFT``: one row for each masque and kind of task with a clean session.
    """
    keys = ["organization_id", "session_key"]
    measured = sessions.join(performance.select(*keys, "composite"), on=keys, how="left").select(
        *_CLASS,
        "masque",
        "attribution",
        "session_date",
        "composite",
        "active_s",
        failure_rate=pl.when(pl.col("total_tools") > 0).then(
            pl.col("tools_failed") / pl.col("total_tools")
        ),
        # A sum of absurd claims can be infinite.
        cost_usd=pl.when(pl.col("cost_usd").is_finite()).then("cost_usd"),
    )
    clean = _summed(measured.filter(attribution="clean"), [*_CLASS, "masque"])
    baseline = _summed(measured.filter(attribution="baseline"), _CLASS)
    beside = clean.join(baseline, on=_CLASS, how="left", suffix="_b").with_columns(
        pl.col("^.*sessions_b$").fill_null(0)
    )
    compared = beside.with_columns(
        column for measure in LIFT_MEASURES for column in _compared(beside, measure, fewest)
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


def _summed(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Number, mean and variance of each measure where it is known."""
    return rows.group_by(by).agg(
        pl.len().cast(pl.Int64).alias("sessions"),
        pl.min("session_date").alias("first_date"),
        pl.max("session_date").alias("last_date"),
        *(pl.col(name).count().cast(pl.Int64).alias(f"{name}_sessions") for name in LIFT_MEASURES),
        *(pl.col(name).mean().alias(f"{name}_mean") for name in LIFT_MEASURES),
        *(pl.col(name).var().alias(f"{name}_variance") for name in LIFT_MEASURES),
    )


def _compared(beside: pl.DataFrame, measure: str, fewest: int) -> list[pl.Expr | pl.Series]:
    """The columns of one measure, null on either side of too few sessions."""
    sessions, others = pl.col(f"{measure}_sessions"), pl.col(f"{measure}_sessions_b")
    smaller = pl.min_horizontal(sessions, others)
    is_shown = smaller >= fewest
    mean, other_mean = pl.col(f"{measure}_mean"), pl.col(f"{measure}_mean_b")
    difference = mean - other_mean
    margin = pl.lit(_margin(beside, measure))
    shown = {
        f"{measure}_mean": mean,
        f"{measure}_baseline_mean": other_mean,
        f"{measure}_difference": difference,
        f"{measure}_low": difference - margin,
        f"{measure}_high": difference + margin,
    }
    return [
        others.alias(f"{measure}_baseline_sessions"),
        *(pl.when(is_shown).then(value).alias(name) for name, value in shown.items()),
        pl.when(is_shown)
        .then(pl.lit("shown"))
        .otherwise(pl.format("not yet: {} of {}", smaller, pl.lit(fewest)))
        .alias(f"{measure}_state"),
    ]


def _margin(beside: pl.DataFrame, measure: str) -> pl.Series:
    """Half the width of Welch's interval; null where one side has fewer than two sessions."""
    from scipy.special import stdtrit  # slow to import, and of use only here

    n, m = (beside[f"{measure}_sessions{side}"].to_numpy() for side in ("", "_b"))
    v, w = (beside[f"{measure}_variance{side}"].to_numpy() for side in ("", "_b"))
    with np.errstate(all="ignore"):  # too few sessions, or no variance at all
        one, other = v / n, w / m
        squared = one + other
        freedom = squared**2 / (one**2 / (n - 1) + other**2 / (m - 1))
        margin = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(squared)
    margin = np.where(squared == 0, 0.0, margin)
    return pl.Series(margin, dtype=pl.Float64).fill_nan(None)
