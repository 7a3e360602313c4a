"""Division whose result for one row does not depend on the number of rows."""

import polars as pl


def divided(value: pl.Expr, by: pl.Expr | float) -> pl.Expr:
    """Return ``value / by``, correctly rounded; ``value`` is finite or null.

    Polars multiplies several rows by the reciprocal of a literal, which can differ in the last bit,
    but divides a single row, and a column by a column. A score would depend on the other sessions
    of its frame, and half of a scale might not be 50.
    """
    return value / (value * 0 + by)
