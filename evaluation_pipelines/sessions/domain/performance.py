"""Session performance: how well the agent worked in a session window, and which are excluded.

Five dimensions of 0-10, their weighted mean and a recommendation. Each formula is an expression
over the columns of ``agent_sessions``; unknown dimensions are null and left out of the mean.
"""

from collections.abc import Sequence
from typing import Literal

import polars as pl

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.settings.exclusions import Rules

SUBAGENT = "sub-agent"
"""Name of the rule that excludes the sessions of sub-agents whose parent is not known."""


def is_counted() -> pl.Expr:
    """Return whether a row of AGENT_SESSIONS counts as a session."""
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
    # Agent programs also send an anonymous id as user.id.
    names = ("user_id", "account_id") if column == "user_id" else (column,)
    return pl.any_horizontal(pl.col(name) == value for name in names)


WEIGHTS = {
    "quality": 0.30,
    "autonomy": 0.25,
    "productivity": 0.20,
    "token_efficiency": 0.15,
    "cost_efficiency": 0.10,
}
SCORE_RANGE = (0.0, 10.0)
"""Lowest and highest value of a dimension and of the composite."""

KEEP_FROM = 7.0
REVIEW_FROM = 4.0
ProductivityTime = Literal["active", "window"]
"""Minutes in the productivity formula: active, or from don to doff."""

_TOTAL_TOOLS = pl.col("total_tools")
_TOOLS_OK = pl.col("tools_ok")


def scorable() -> pl.Expr:
    """Return whether there is evidence to score: a tool call with a known outcome.

    A sub-agent's work is no session of its own.
    """
    return ((_TOTAL_TOOLS.fill_null(0) > 0) & is_counted()).alias("scorable")


def quality() -> pl.Expr:
    """Return the share of tool calls that succeeded, 0-10."""
    return _dimension(_TOOLS_OK / _TOTAL_TOOLS * 10).alias("quality")


def autonomy() -> pl.Expr:
    """Return tool calls per prompt, 0-10: five calls per prompt are 10; null if unknown."""
    return _dimension(_TOTAL_TOOLS / _at_least_one("prompts") * 2).alias("autonomy")


def tools_per_prompt() -> pl.Expr:
    """Return tool calls per prompt, from 0; no prompt counts as one, null if either is unknown."""
    return (_TOTAL_TOOLS / _at_least_one("prompts")).alias("tools_per_prompt")


def productivity(time: ProductivityTime = "active") -> pl.Expr:
    """Return successful tool calls per minute, 0-10: one call per minute is 10.

    Less than one minute counts as one minute.
    """
    # The formula uses seconds because Polars divides a column by a number in one way and a single
    # value in another: the last digit must not depend on how many sessions are scored together.
    seconds = pl.max_horizontal("active_s" if time == "active" else "duration_s", 60.0)
    return _dimension(_TOOLS_OK * 600 / seconds).alias("productivity")


def token_efficiency() -> pl.Expr:
    """Return the share of all tokens read from the cache, 0-10; null if unknown or no token."""
    tokens = pl.col("total_tokens")
    share = pl.when(tokens > 0).then(pl.col("cache_read_tokens") / tokens)
    return _dimension(share * 10).alias("token_efficiency")


def cost_efficiency() -> pl.Expr:
    """Return cost per successful tool call, 0-10: no cost is 10, 0.10 USD is 0; null if unknown."""
    cost_per_tool = pl.col("cost_usd") / _at_least_one("tools_ok")
    return _dimension(10 - cost_per_tool * 100).alias("cost_efficiency")


def composite() -> pl.Expr:
    """Return the weighted mean of the known dimensions, 0-10; null if none is known.

    Reads the dimension columns. The weights of unknown dimensions are spread over the others in
    proportion, by dividing by the sum of the known weights.
    """
    nothing = pl.lit(0.0)
    # Added one by one: a horizontal sum has no fixed order, and its rounding would vary.
    weighted = sum((pl.col(name).fill_null(0) * WEIGHTS[name] for name in WEIGHTS), nothing)
    known = sum((pl.col(name).is_not_null() * WEIGHTS[name] for name in WEIGHTS), nothing)
    return pl.when(known > 0).then(weighted / known).clip(*SCORE_RANGE).alias("composite")


def printed(score: pl.Expr) -> pl.Expr:
    """Return the score as it is printed: one decimal, rounded half up.

    It is first rounded to nine decimals to remove floating-point noise: 6.949999999999999 is 6.95
    and prints 7.0.
    """
    return (score.round(9) * 10 + 0.5).floor() / 10


def recommendation() -> pl.Expr:
    """Return ``keep``, ``review`` or ``doff`` by the printed composite; null without one."""
    score = printed(pl.col("composite"))
    return (
        pl.when(score >= KEEP_FROM)
        .then(pl.lit("keep"))
        .when(score >= REVIEW_FROM)
        .then(pl.lit("review"))
        .when(score.is_not_null())
        .then(pl.lit("doff"))
        .alias("recommendation")
    )


def partial() -> pl.Expr:
    """Return whether a scorable session has an unknown dimension."""
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in WEIGHTS)
    return (pl.col("scorable") & unknown).alias("partial")


def reason() -> pl.Expr:
    """Return why a session is unscorable or partial, in words; null if it is neither."""
    no_tokens = (
        pl.when(pl.col("total_tokens") == 0)
        .then(pl.lit("no tokens used"))
        .when(pl.col("token_efficiency").is_null())
        .then(pl.lit("tokens unknown"))
    )
    no_cost = pl.when(pl.col("cost_efficiency").is_null()).then(pl.lit("cost unknown"))
    no_prompts = pl.when(pl.col("autonomy").is_null()).then(pl.lit("prompts unknown"))
    return (
        pl.when(~is_counted())
        .then(pl.lit("work of a sub-agent"))
        .when(_TOTAL_TOOLS.is_null())
        .then(pl.lit("tool calls unknown"))
        .when(~pl.col("scorable"))
        .then(pl.lit("no tool call with a known outcome"))
        .when(partial())
        .then(pl.concat_str(no_prompts, no_tokens, no_cost, separator=", ", ignore_nulls=True))
        .alias("reason")
    )


def score_sessions(sessions: pl.DataFrame, time: ProductivityTime = "active") -> pl.DataFrame:
    """Score every session.

    Args:
        sessions: Rows of ``agent_sessions``.
        time: Minutes by which productivity divides.

    Returns:
        One row of ``session_performance`` for each, in its order.
    """
    table = SESSION_PERFORMANCE
    scored = (
        # A lazy query evaluates the expressions of a step in parallel, on the needed columns only.
        sessions.lazy()
        .with_columns(
            *(scorable(), quality(), autonomy(), productivity(time)),
            *(token_efficiency(), cost_efficiency()),
        )
        .with_columns(composite(), partial(), reason())
        .with_columns(recommendation())
        .select(table.schema.names())
        .cast(table.schema)
        .collect()
    )
    # Sorting takes longer than the formulas, and rows of the lake are usually in this order.
    return scored if _is_in_order(scored, table.order) else scored.sort(table.order)


def _is_in_order(rows: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Return True if no row sorts after the next one; structs take three times as long."""
    first, *rest = columns
    values = rows[first]
    if not rest:
        return values.is_sorted()
    if rows.is_empty() or values[0] == values[-1]:  # mostly there is one organization
        return values.is_sorted() and _is_in_order(rows, rest)
    is_after = pl.lit(value=False)
    for name in reversed(columns):
        this, following = pl.col(name), pl.col(name).shift(-1)
        is_after = (this > following) | ((this == following) & is_after)
    return not rows.lazy().select(is_after.any()).collect().item()


def _dimension(value: pl.Expr) -> pl.Expr:
    """Return the value clipped to 0-10; null in a session without evidence."""
    return pl.when(scorable()).then(value.clip(*SCORE_RANGE))


def _at_least_one(column: str) -> pl.Expr:
    return pl.col(column).clip(lower_bound=1)
