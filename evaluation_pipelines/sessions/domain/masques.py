"""Comparison of masques: how their sessions went, and whether their scores improve."""

from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.sessions.domain.performance import recommendation

TREND_DAYS = 7
MIN_SESSIONS = 5
"""With fewer sessions in a week its mean says little, and no trend is shown."""


def masque_table(performance: pl.DataFrame, last_date: date) -> pl.DataFrame:
    """Return one row per masque, the best first.

    Args:
        performance: Rows of ``session_performance``. Remainder windows (work between two masques
            of a session) belong to no masque and are left out.
        last_date: Last session date of the trend.

    Returns:
        ``masque`` (null: baseline), ``sessions`` with a score, ``composite`` (their mean),
        ``recommendation`` for it, and ``trend``: the mean composite of the seven dates up to
        ``last_date`` minus that of the seven dates before; null if either has fewer than 5
        sessions.
    """
    scored = performance.filter(pl.col("scorable"), pl.col("attribution") != "remainder")
    middle = last_date - timedelta(days=TREND_DAYS)
    first = middle - timedelta(days=TREND_DAYS)
    day = pl.col("session_date")
    late = _mean_composite(day.is_between(middle, last_date, closed="right"))
    early = _mean_composite(day.is_between(first, middle, closed="right"))
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


def _mean_composite(is_in_week: pl.Expr) -> pl.Expr:
    mean = pl.col("composite").filter(is_in_week).mean()
    return pl.when(is_in_week.sum() >= MIN_SESSIONS).then(mean)
