"""Sessions that rules of the user's leave out: they are neither judged nor scored."""

import polars as pl

from evaluation_pipelines.settings.exclusions import Rules


def excluded_by(rules: Rules) -> pl.Expr:
    """The name of the first rule that leaves a session out, as ``excluded_by``; null without."""
    named = [
        pl.when(pl.all_horizontal(pl.col(column) == value for column, value in wanted.items()))
        .then(pl.lit(name))
        .otherwise(None)
        for name, wanted in rules.items()
    ]
    return pl.coalesce(*named, pl.lit(None, pl.String)).alias("excluded_by")
