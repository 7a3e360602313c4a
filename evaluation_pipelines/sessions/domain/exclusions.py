"""Sessions that are neither judged nor scored: by rules of the user, and those of sub-agents."""

import polars as pl

from evaluation_pipelines.settings.exclusions import Rules

SUBAGENT = "sub-agent"
"""Name of the rule that excludes the sessions of sub-agents whose parent is not known."""


def is_counted() -> pl.Expr:
    """Return whether a row of AGENT_SESSIONS is one of the sessions that are counted."""
    return ~pl.col("is_subagent").fill_null(value=False)


def excluded_by(rules: Rules) -> pl.Expr:
    """Return the name of the first rule that excludes a session, as ``excluded_by``; else null."""
    named = [
        pl.when(pl.all_horizontal(_has(column, value) for column, value in conditions.items()))
        .then(pl.lit(name))
        .otherwise(None)
        for name, conditions in rules.items()
    ]
    subagent = pl.when(~is_counted()).then(pl.lit(SUBAGENT))
    return pl.coalesce(subagent, *named, pl.lit(None, pl.String)).alias("excluded_by")


def _has(column: str, value: str) -> pl.Expr:
    # Agent programs send an anonymous id as user.id, too.
    names = ("user_id", "account_id") if column == "user_id" else (column,)
    return pl.any_horizontal(pl.col(name) == value for name in names)
