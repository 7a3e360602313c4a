"""When a session has ended."""

import polars as pl


def is_terminal(now: pl.Expr, idle_minutes: int) -> pl.Expr:
    """Whether a session has ended as of a time: said so, or silent for longer than the limit."""
    silent = pl.col("ended_at") < now - pl.duration(minutes=idle_minutes)
    return (pl.col("explicit_end").fill_null(value=False) | silent).alias("is_terminal")
