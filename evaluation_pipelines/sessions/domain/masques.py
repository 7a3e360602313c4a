"""Masques side by side: how the sessions of each went, and whether they get better."""

from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.sessions.domain.performance import recommendation

TREND_DAYS = 7
FEWEST = 5
"""A mean of fewer sessions says little: no trend is shown."""


def masque_table(performance: pl.DataFrame, last_date: date) -> pl.DataFrame:
    """One row per masque, the best first.

    Args:
        performance: Rows of ``session_performance``. Remainder windows (what lies between masques
            in a session) belong to nobody and are left out.
        last_date: Last session date of the trend.

    Returns:
        ``masque`` (null: baseline), ``sessions`` with a score, ``composite`` (their mean),
        ``recommendation`` on it, and ``trend``: mean composite of the seven dates up to
        ``last_date`` minus that of the seven before; null where one has fewer than 5 sessions.
    """
    scored = performance.filter(pl.col("scorable"), pl.col("attribution") != "remainder")
    turn = last_date - timedelta(days=TREND_DAYS)
    first = turn - timedelta(days=TREND_DAYS)
    day = pl.col("session_date")
    late = _mean(day.is_between(turn, last_date, closed="right"))
    early = _mean(day.is_between(first, turn, closed="right"))
    return (
        scored.group_by("masque")
        .agg(
            sessions=pl.len(),
            composite=pl.col("composite").mean(),
            scorable=pl.lit(value=True),
            trend=late - early,
        )
        .with_columns(recommendation())
        .select("masque", "sessions", "composite", "recommendation", "trend")
        .sort("composite", "masque", descending=[True, False])
    )


def _mean(dates: pl.Expr) -> pl.Expr:
    return pl.when(dates.sum() >= FEWEST).then(pl.col("composite").filter(dates).mean())
