"""Rows of the sessions that a filter chooses."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol, TypeVar

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.lake import Lake

_KEY = pl.Schema(
    {"organization_id": pl.String(), "session_key": pl.String(), "session_date": pl.Date()}
)


class OfSession(Protocol):
    """What belongs to a session window."""

    @property
    def organization_id(self) -> str:
        """Its organization."""

    @property
    def session_key(self) -> str:
        """Its key."""

    @property
    def session_date(self) -> date:
        """Its partition."""


Item = TypeVar("Item", bound=OfSession)


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


def chosen_of(lake: Lake, which: SessionFilter, items: Sequence[Item]) -> list[Item]:
    """Return the items of chosen sessions, in their order; raises LakeError."""
    if which.is_empty:
        return list(items)
    rows = [tuple(getattr(each, name) for name in _KEY) for each in items]
    keys = pl.DataFrame(rows, schema=_KEY, orient="row").with_row_index("at")
    return [items[at] for at in rows_of_chosen(lake, which, keys)["at"]]
