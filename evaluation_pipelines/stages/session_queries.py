"""The queries from landed events to session windows, over files of the lake or over frames."""

from collections.abc import Mapping, Sequence
from datetime import date

import polars as pl

from evaluation_pipelines.adapters.queries import Source, run_query
from evaluation_pipelines.domain.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.settings import Settings


def query_events(landed: Source) -> pl.DataFrame:
    """Landed events (files of the lake, or a frame) deduplicated: AGENT_EVENTS."""
    views = {AGENT_EVENTS_LANDED.name: landed}
    return run_query(AGENT_EVENTS.name, views=views, schema=AGENT_EVENTS.schema)


def query_sessions(events: Source, settings: Settings) -> pl.DataFrame:
    """Session windows (AGENT_SESSIONS) of deduplicated events: files of the lake, or a frame."""
    return run_query(
        AGENT_SESSIONS.name,
        views={AGENT_EVENTS.name: events},
        params={"session_idle_minutes": settings.session_idle_minutes},
        schema=AGENT_SESSIONS.schema,
    )


def rows_by_date(rows: pl.DataFrame, days: Sequence[date]) -> Mapping[date, pl.DataFrame]:
    """The rows of each date, in their order; those of a single date are all of them.

    Raises:
        ValueError: among those of several dates are rows of another one.
    """
    if len(days) == 1:
        return {days[0]: rows}
    found = rows.partition_by("session_date", as_dict=True, maintain_order=True)
    if strange := sorted(str(day) for (day,) in found if day not in days):
        raise ValueError(f"rows of {', '.join(strange)} lie with other dates")
    return {day: found.get((day,), rows.clear()) for day in days}
