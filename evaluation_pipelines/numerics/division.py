"""Division whose result for one row does not depend on how many others there are."""

import polars as pl


def divided(value: pl.Expr, by: pl.Expr | float) -> pl.Expr:
    """``value / by``, correctly rounded; ``value`` is finite or null.

    Polars multiplies several rows by the reciprocal of one number, which is off by a last bit now
    and then, but divides a single row and a column by a column. A score would depend on which
    sessions it is made with, and half of a scale might not be 50.
    """
    return value / (value * 0 + by)
