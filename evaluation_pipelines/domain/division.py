"""Division whose result for one row does not depend on how many others there are."""

import polars as pl


def divided(value: pl.Expr, by: pl.Expr | float) -> pl.Expr:
    """``value / by``, by way of the reciprocal.

    That is what Polars does where one number divides several rows, but it divides a single row,
    and rows by a column. The last bit would depend on which sessions a score is made with.
    """
    reciprocal = 1 / by
    return value * reciprocal
