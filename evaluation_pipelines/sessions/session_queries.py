"""SQL queries from landed events to session windows, over lake files or frames."""

from collections.abc import Mapping, Sequence
from datetime import date

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.tool_reports.calls import TOOL_CALLS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.queries import Source, run_queries, run_query

KEPT = pl.Schema({"row_no": pl.UInt32(), "session_date": pl.Date()})

_TOOL_CALLS = "tool_calls"
_DEDUPLICATION_COLUMNS = (
    *("session_date", "organization_id", "session_id", "event_name", "request_id"),
    *("event_time", "sequence", "event_id", "source_file_id", "source_offset"),
)
"""Columns of a landed event that identify copies and define the order."""


def kept_events(landed: pl.DataFrame, *, small: bool = False) -> pl.DataFrame:
    """Return which rows of AGENT_EVENTS_LANDED remain after copies are removed.

    Returns:
        KEPT: ``row_no`` (from 0) and ``session_date``, in the order of AGENT_EVENTS.
    """
    views = {AGENT_EVENTS_LANDED.name: landed.select(_DEDUPLICATION_COLUMNS)}
    return run_query(AGENT_EVENTS.name, views=views, schema=KEPT, small=small)


def query_events(landed: pl.DataFrame) -> pl.DataFrame:
    """Return landed events without copies: AGENT_EVENTS."""
    return landed[kept_events(landed)["row_no"]]


def query_sessions(events: Source, settings: Settings, *, small: bool = False) -> pl.DataFrame:
    """Return session windows (AGENT_SESSIONS) of deduplicated events in lake files or a frame."""
    return run_query(
        AGENT_SESSIONS.name,
        views={AGENT_EVENTS.name: events},
        params=_session_params(settings),
        schema=AGENT_SESSIONS.schema,
        small=small,
    )


def query_tool_calls(events: Source) -> pl.DataFrame:
    """Return tool calls (TOOL_CALLS) of deduplicated events in lake files or a frame."""
    return run_query(
        _TOOL_CALLS,
        views={AGENT_EVENTS.name: events},
        schema=TOOL_CALLS,
        steps_of=AGENT_SESSIONS.name,
        last_step="call_outcomes",
    )


def query_sessions_and_calls(
    events: Source, settings: Settings, *, small: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return session windows and tool calls; the steps that both need run once."""
    sessions, calls = run_queries(
        {AGENT_SESSIONS.name: AGENT_SESSIONS.schema, _TOOL_CALLS: TOOL_CALLS},
        views={AGENT_EVENTS.name: events},
        params=_session_params(settings),
        steps_of=AGENT_SESSIONS.name,
        small=small,
    )
    return sessions, calls


def _session_params(settings: Settings) -> dict[str, object]:
    return {"session_idle_minutes": settings.session_idle_minutes}


def rows_by_date(rows: pl.DataFrame, days: Sequence[date]) -> Mapping[date, pl.DataFrame]:
    """Return the rows of each of the dates, in their order.

    Raises:
        ValueError: There are rows of another date, which would be lost.
    """
    found = rows.partition_by("session_date", as_dict=True, maintain_order=True)
    if unexpected := sorted(str(day) for (day,) in found if day not in days):
        raise ValueError(
            f"rows of {', '.join(unexpected)} are among the rows of {days[0]} to {days[-1]}"
        )
    return {day: found.get((day,), rows.clear()) for day in days}
