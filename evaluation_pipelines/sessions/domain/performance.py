"""Session performance: how well did the agent work just now?

Five dimensions of 0-10, their weighted sum and what to do about it. Each formula is an expression
over the columns of ``agent_sessions``; what is unknown is null and takes no part.
"""

from typing import Literal

import polars as pl

from evaluation_pipelines.schemas import SESSION_PERFORMANCE

WEIGHTS = {
    "quality": 0.30,
    "autonomy": 0.25,
    "productivity": 0.20,
    "token_efficiency": 0.15,
    "cost_efficiency": 0.10,
}
KEEP_FROM = 7.0
REVIEW_FROM = 4.0
SMALLEST_CLASS = 20
HISTORY_DAYS = 28

_TOTAL_TOOLS = pl.col("total_tools")
_TOOLS_OK = pl.col("tools_ok")
_CLASS = ["organization_id", "task_class"]
RANKED = (*_CLASS, "composite")
"""Columns that percentiles rank by."""


def scorable() -> pl.Expr:
    """Whether there is evidence: a tool call with a known outcome."""
    return (_TOTAL_TOOLS > 0).alias("scorable")


def quality() -> pl.Expr:
    """Share of tool calls that succeeded, 0-10."""
    return _dimension(_TOOLS_OK / _TOTAL_TOOLS * 10).alias("quality")


def autonomy() -> pl.Expr:
    """Tool calls per prompt, 0-10: five are 10."""
    return _dimension(_TOTAL_TOOLS / _at_least_one("prompts") * 2).alias("autonomy")


def productivity() -> pl.Expr:
    """Successful tool calls per active minute, 0-10: one is 10, and the first minute is whole."""
    # Seconds, since Polars divides a column by a number in one way and a single value in another:
    # the last digit must not depend on how many sessions are scored together.
    active_s = pl.max_horizontal("active_s", 60.0)
    return _dimension(_TOOLS_OK * 600 / active_s).alias("productivity")


def token_efficiency() -> pl.Expr:
    """Share of all tokens that was read from the cache, 0-10; null when unknown or no token."""
    tokens = pl.col("total_tokens")
    share = pl.when(tokens > 0).then(pl.col("cache_read_tokens") / tokens)
    return _dimension(share * 10).alias("token_efficiency")


def cost_efficiency() -> pl.Expr:
    """Cost per successful tool call, 0-10: nothing is 10, 0.10 USD is 0; null when unknown."""
    cost_per_tool = pl.col("cost_usd") / _at_least_one("tools_ok")
    return _dimension(10 - cost_per_tool * 100).alias("cost_efficiency")


def composite() -> pl.Expr:
    """Weighted mean of the known dimensions, 0-10; null when none is known.

    Reads the dimension columns. The weights of unknown dimensions are spread over the others in
    proportion, by dividing by the sum of those that are known.
    """
    nothing = pl.lit(0.0)
    # One after the other: a horizontal sum adds in any order, and so rounds in more than one way.
    weighted = sum((pl.col(name).fill_null(0) * WEIGHTS[name] for name in WEIGHTS), nothing)
    known = sum((pl.col(name).is_not_null() * WEIGHTS[name] for name in WEIGHTS), nothing)
    return pl.when(known > 0).then(weighted / known).clip(0, 10).alias("composite")


def printed(score: pl.Expr) -> pl.Expr:
    """The score as a person reads it: one decimal, half up.

    Rounding to nine decimals first undoes floating noise: 6.949999999999999 is 6.95 and prints 7.0.
    """
    return (score.round(9) * 10 + 0.5).floor() / 10


def recommendation() -> pl.Expr:
    """``keep``, ``review`` or ``doff`` by the composite as printed; null without a composite."""
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
    """Whether a scorable session has a dimension that is unknown."""
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in WEIGHTS)
    return (pl.col("scorable") & unknown).alias("partial")


def reason() -> pl.Expr:
    """Why a session is unscorable or partial, in words; null when it is neither."""
    no_tokens = (
        pl.when(pl.col("total_tokens") == 0)
        .then(pl.lit("no tokens used"))
        .when(pl.col("token_efficiency").is_null())
        .then(pl.lit("tokens unknown"))
    )
    no_cost = pl.when(pl.col("cost_efficiency").is_null()).then(pl.lit("cost unknown"))
    return (
        pl.when(~pl.col("scorable"))
        .then(pl.lit("no tool call with a known outcome"))
        .when(pl.col("partial"))
        .then(pl.concat_str(no_tokens, no_cost, separator=", ", ignore_nulls=True))
        .alias("reason")
    )


def score_sessions(sessions: pl.DataFrame) -> pl.DataFrame:
    """Score every session.

    Args:
        sessions: rows of ``agent_sessions``.

    Returns:
        As many rows of ``session_performance``, in its order, with ``percentile_in_class`` null:
        that one takes other sessions, see :func:`percentile_in_class`.
    """
    table = SESSION_PERFORMANCE
    scored = (
        # Lazy: expressions side by side, and only the columns that are needed.
        sessions.lazy()
        .with_columns(
            scorable(), quality(), autonomy(), productivity(), token_efficiency(), cost_efficiency()
        )
        .with_columns(composite(), partial())
        .with_columns(
            recommendation(), reason(), pl.lit(None, pl.Float64).alias("percentile_in_class")
        )
        .select(table.schema.names())
        .cast(table.schema)
        .collect()
    )
    # Sorting takes longer than the formulas, and rows of the lake are in this order already.
    in_order = scored.select(pl.struct(table.order)).to_series().is_sorted()
    return scored if in_order else scored.sort(table.order)


def percentile_in_class(performance: pl.DataFrame, history: pl.DataFrame) -> pl.DataFrame:
    """Rank each composite among those of its organization and task class in the weeks before.

    Mean rank: 100 * (lower + equal / 2) / n over the n scored sessions of the class; null for
    unscorable sessions and where n is under 20.

    Args:
        performance: rows of ``session_performance`` of one session date D.
        history: ``RANKED`` of ``session_performance`` with session date in
            [D - 28 days, D - 1 day].

    Returns:
        ``performance`` with the column ``percentile_in_class`` filled.
    """
    ranked = pl.concat(
        [
            performance.select(*RANKED, is_new=pl.lit(value=True)),
            history.filter(pl.col("composite").is_not_null()).select(
                *RANKED, is_new=pl.lit(value=False)
            ),
        ]
    ).with_columns(
        lower=_rank("min").over(_CLASS) - _rank("min").over([*_CLASS, "is_new"]),
        lower_or_equal=_rank("max").over(_CLASS) - _rank("max").over([*_CLASS, "is_new"]),
        n=(~pl.col("is_new")).sum().over(_CLASS),
    )
    # lower + equal / 2 is the mean of lower and lower_or_equal.
    percentile = 100 * (pl.col("lower") + pl.col("lower_or_equal")) / 2 / pl.col("n")
    return performance.with_columns(
        ranked.filter("is_new").select(
            percentile_in_class=pl.when(pl.col("n") >= SMALLEST_CLASS).then(percentile)
        )["percentile_in_class"]
    )


def _rank(method: Literal["min", "max"]) -> pl.Expr:
    """Rank of the composite: less that among the new rows alone, it counts rows of the history."""
    return pl.col("composite").rank(method).cast(pl.Int64)


def _dimension(value: pl.Expr) -> pl.Expr:
    """Clamped to 0-10; null in a session without evidence, whatever the formula gives."""
    return pl.when(scorable()).then(value.clip(0, 10))


def _at_least_one(column: str) -> pl.Expr:
    return pl.max_horizontal(pl.col(column), 1)
