"""Publish: the tables of the lake as one database for analysts."""

import glob
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.adapters.analytics import Derived, Published, Source, publish
from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.sql_files import read_sql
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    Column,
    Table,
)
from evaluation_pipelines.stages.stores import Stores


def publish_analytics(stores: Stores, now: datetime) -> Published:
    """Build the analysts' database from the lake and swap it in.

    Raises:
        AnalyticsError: a Parquet file is damaged or the folder cannot be written; the database of
            before stays.
    """
    lake = stores.lake
    sources = [
        # Many and large: a view, which needs no copy and is never out of date.
        _source(lake, AGENT_EVENTS, copied=False),
        _source(lake, AGENT_SESSIONS, copied=True, as_map=("tool_mix",)),
        _source(lake, SESSION_PERFORMANCE, copied=True),
    ]
    return publish(stores.settings.analytics_path, sources, [_sessions()], now)


def _source(lake: Lake, table: Table, *, copied: bool, as_map: tuple[str, ...] = ()) -> Source:
    root = Path(glob.escape(str(lake.root.resolve())))
    pattern = root / table.name / "session_date=*" / f"{table.name}.parquet"
    return Source(table, lake.files(table), pattern, copied, as_map)


def _sessions() -> Derived:
    """Sessions and their scores side by side: what most questions start from."""
    described: dict[str, Column] = {
        each.name: each for each in (*AGENT_SESSIONS.columns, *SESSION_PERFORMANCE.columns)
    }
    return Derived(
        "sessions",
        "agent_sessions with their session_performance: one row per session window",
        read_sql("sessions"),
        tuple(described.values()),
    )
