"""Rows of the sessions that a filter chooses."""

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.lake import Lake


def rows_of_chosen(lake: Lake, which: SessionFilter, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of chosen sessions, in their order.

    Args:
        lake: The lake with AGENT_SESSIONS.
        which: The filter.
        rows: Rows with the columns of SESSION_KEY and ``session_date``.

    Raises:
        LakeError: A file cannot be read.
    """
    if which.is_empty:
        return rows
    days = rows["session_date"].drop_nulls().unique().sort().to_list()
    return which.rows_of(rows, lake.read(AGENT_SESSIONS, days))
