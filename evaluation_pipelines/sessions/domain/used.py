"""Use and cost of sub-agents, skills and slash commands over sessions."""

import polars as pl

SUMMED = ("uses", "calls", "api_requests", "total_tokens", "cost_usd")
"""Figures of a sub-agent, skill or slash command; each is null if no record tells it."""


def uses_of(kind: str, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each name that a session used, with SUMMED in place of the session's own.

    Args:
        kind: One of USED_KINDS.
        sessions: Rows of AGENT_SESSIONS.

    Returns:
        The other columns of the session, ``used_name`` and SUMMED.
    """
    names = pl.element().struct.field("kind") == kind
    of_kind = sessions.with_columns(pl.col("used").list.filter(names)).explode("used")
    return of_kind.drop_nulls("used").with_columns(
        pl.col("used").struct.field("name").alias("used_name"),
        *(pl.col("used").struct.field(name) for name in SUMMED),
    )


def used_by(kind: str, sessions: pl.DataFrame) -> pl.DataFrame:
    """Sum uses over sessions, the most expensive first.

    Args:
        kind: One of USED_KINDS.
        sessions: Rows of AGENT_SESSIONS.

    Returns:
        ``used_name``; ``sessions``; sums of SUMMED over the sessions in which they are known, null
        if they are in none; and ``known_costs``, the number of sessions whose cost is known.
    """
    sums = [
        pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
        for name in SUMMED
    ]
    return (
        uses_of(kind, sessions)
        .group_by("used_name")
        .agg(
            pl.struct("organization_id", "session_id").n_unique().cast(pl.Int64).alias("sessions"),
            *sums,
            known_costs=pl.col("cost_usd").count().cast(pl.Int64),
        )
        .sort(-pl.col("cost_usd"), -pl.col("total_tokens"), "used_name", nulls_last=True)
    )
