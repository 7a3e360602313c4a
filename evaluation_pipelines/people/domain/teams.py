"""Sessions by team."""

import polars as pl

_ID = pl.coalesce(pl.col("user_email").str.to_lowercase(), "user_id", "account_id")


def sessions_by_team(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return a row per team with its people, their ids and repositories, the largest first.

    Args:
        sessions: AGENT_SESSIONS.

    Returns:
        ``team``, ``people`` (number of ``person_id``), ``ids`` (number of e-mails, else user ids,
        else account ids), ``sessions`` (windows) and ``repositories`` (sorted list).
    """
    return (
        sessions.group_by("team")
        .agg(
            people=pl.col("person_id").n_unique(),
            ids=_ID.n_unique(),
            sessions=pl.len(),
            repositories=pl.col("repository").drop_nulls().unique().sort(),
        )
        .sort("sessions", "team", descending=[True, False])
    )
