"""Losses by tool and by model over many sessions."""

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY


def lost_by_tool(reports: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one row per tool and what is counted, most lost calls first: see :func:`_totals`."""
    tools = (
        reports.select(*SESSION_KEY, "by_tool", "total_calls")
        .explode("by_tool")
        .unnest("by_tool")
        .join(sessions.select(*SESSION_KEY, "cost_usd"), on=SESSION_KEY, how="left")
    )
    return _totals(tools, "tool")


def lost_by_model(reports: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one row per model and what is counted, most lost calls first: see :func:`_totals`."""
    windows = reports.select(
        *SESSION_KEY,
        "model",
        "total_calls",
        "lost_calls",
        "lost_tokens",
        "lost_usd",
        calls="total_calls",
        failed="failed_calls",
        corrected="corrected_calls",
        repeated="repeated_calls",
        wasted="wasted_calls",
    ).join(sessions.select(*SESSION_KEY, "cost_usd"), on=SESSION_KEY, how="left")
    return _totals(windows, "model")


def _totals(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Sum calls and losses over sessions.

    Sessions without logged parameters or results lose fewer calls for the same work, since their
    repeats or waste are unknown, so they have rows of their own: compare rows of one ``counted``.

    Returns:
        ``by``; ``counted`` (the kinds of loss that are known); ``sessions``; ``calls``, ``failed``,
        ``corrected``, ``repeated``, ``wasted`` (null if unknown); ``lost_calls`` (the sum of the
        penalties) and ``lost_pct`` of the calls; ``lost_tokens`` and ``lost_usd``, the results of
        lost calls, over the ``known_sessions`` in which their size is known; and
        ``cost_share_usd``: the cost of each session times the share of its calls that were lost,
        over the sessions whose cost is known.
    """
    share = pl.col("cost_usd") * pl.col("lost_calls") / pl.col("total_calls")
    return (
        rows.filter(pl.col("calls") > 0)
        .with_columns(_counted(), cost_share_usd=share)
        .group_by(by, "counted")
        .agg(
            pl.len().cast(pl.Int64).alias("sessions"),
            *map(_known_sum, ("calls", "failed", "corrected", "repeated", "wasted")),
            pl.col("lost_calls").sum(),
            _known_sum("lost_tokens"),
            _known_sum("lost_usd"),
            _known_sum("cost_share_usd"),
            pl.col("lost_tokens").is_not_null().sum().cast(pl.Int64).alias("known_sessions"),
        )
        .with_columns(lost_pct=100 * pl.col("lost_calls") / pl.col("calls"))
        .sort(-pl.col("lost_calls"), by, "counted", nulls_last=True)
    )


def _counted() -> pl.Expr:
    """Return the kinds of loss that are known, such as ``failed, corrected, repeated``."""
    return pl.concat_str(
        pl.lit("failed"),
        pl.when(pl.col("repeated").is_not_null()).then(pl.lit("corrected, repeated")),
        pl.when(pl.col("wasted").is_not_null()).then(pl.lit("wasted")),
        separator=", ",
        ignore_nulls=True,
    ).alias("counted")


def _known_sum(column: str) -> pl.Expr:
    values = pl.col(column)
    return pl.when(values.is_not_null().any()).then(values.sum()).alias(column)
