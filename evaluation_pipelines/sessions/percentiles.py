"""Session performance as it is read: each window with its rank among those before its date.

The rank depends on other dates, so no file has it: it is computed from the current rows. An open
session has none, and nothing ranks among it: its composite may still change.
"""

from collections.abc import Collection
from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    RANKED_PERFORMANCE,
    SESSION_KEY,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.queries import run_query

RANKS = "percentile_in_class"
"""SQL file that ranks the rows of ``session_performance``."""

DAYS_BEFORE = 28
"""Days before a date whose windows its own rank among: those of the SQL file."""

RANK_KEY = ("session_date", *SESSION_KEY)
"""Columns by which a rank belongs to its window."""

_CLASS = ("organization_id", "task_class")
_SCHEMA = pl.Schema({name: RANKED_PERFORMANCE.schema[name] for name in (*RANK_KEY, RANKS)})
_SMALL_ROWS = 100_000


def ranked_performance(
    lake: Lake, days: Collection[date], ended: pl.Expr, where: pl.Expr | None = None
) -> pl.DataFrame:
    """Read the performance of session windows with ``percentile_in_class``.

    Args:
        lake: The lake, or the one as of a past time.
        days: Session dates.
        ended: Whether a row of AGENT_SESSIONS has ended, as ``is_terminal``.
        where: Condition on the windows that are returned; they rank among all of their class.

    Returns:
        Rows of RANKED_PERFORMANCE, date by date.

    Raises:
        LakeError: A file of the dates, or of the 28 days before one of them, cannot be read.
    """
    rows = lake.read(SESSION_PERFORMANCE, days, where=where)
    return with_percentiles(rows, _others(lake, rows, ended))


def with_percentiles(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return rows of SESSION_PERFORMANCE with ``percentile_in_class``, 0-100, in their order.

    Args:
        rows: Some windows.
        others: RANK_KEY, ``task_class`` and ``composite`` of these windows and of all others of
            their classes in the 28 days before; the composite of an open session is null.
    """
    ranks = run_query(
        RANKS,
        views={SESSION_PERFORMANCE.name: others},
        schema=_SCHEMA,
        small=others.height <= _SMALL_ROWS,
    )
    ranked = rows.join(ranks, on=RANK_KEY, how="left", validate="1:1", maintain_order="left")
    return ranked.select(RANKED_PERFORMANCE.schema.names())


def _others(lake: Lake, rows: pl.DataFrame, ended: pl.Expr) -> pl.DataFrame:
    """Read what :func:`with_percentiles` needs of the windows that rows rank among."""
    days = {
        day - timedelta(days=back)
        for day in rows["session_date"].unique()
        for back in range(DAYS_BEFORE + 1)
    }
    is_alike = pl.all_horizontal(
        pl.col(name).is_in(rows[name].unique().implode(), nulls_equal=True) for name in _CLASS
    )
    columns = (*RANK_KEY, "task_class", "composite")
    others = lake.read(SESSION_PERFORMANCE, sorted(days), columns, is_alike)
    ends = lake.read(AGENT_SESSIONS, sorted(days), [*RANK_KEY, "explicit_end", "ended_at"])
    is_open = ends.filter(~ended).select(*RANK_KEY, is_open=pl.lit(value=True))
    found = others.join(is_open, on=RANK_KEY, how="left")
    return found.with_columns(composite=pl.when(pl.col("is_open").is_null()).then("composite"))
