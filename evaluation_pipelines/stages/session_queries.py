"""The queries from landed events to session windows, over files of the lake or over frames."""

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
