"""Sessions that the user's rules exclude: they are neither judged nor scored."""

import polars as pl

from evaluation_pipelines.settings.exclusions import Rules


def excluded_by(rules: Rules) -> pl.Expr:
    """Return the name of the first rule that excludes a session, as ``excluded_by``; else null."""
    named = [
        pl.when(pl.all_horizontal(_has(column, value) for column, value in conditions.items()))
        .then(pl.lit(name))
        .otherwise(None)
        for name, conditions in rules.items()
    ]
    return pl.coalesce(*named, pl.lit(None, pl.String)).alias("excluded_by")


def _has(column: str, value: str) -> pl.Expr:
    # Agent programs send an anonymous id as user.id, too.
    names = ("user_id", "account_id") if column == "user_id" else (column,)
    return pl.any_horizontal(pl.col(name) == value for name in names)
