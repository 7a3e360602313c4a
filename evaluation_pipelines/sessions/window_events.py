"""The session window that each event belongs to."""

from dataclasses import replace

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.sessions.session_queries import SESSION_STEPS
from evaluation_pipelines.storage.queries import run_query

WINDOW_EVENTS = pl.Schema(
    {
        "session_date": pl.Date(),
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "position": pl.Int64(),
        "event_id": pl.Binary(),
    }
)

WINDOW_COLUMNS = (
    *("session_date", "organization_id", "session_id", "event_id", "event_time", "sequence"),
    *("event_name", "masque", "success", "has_content"),
)
"""Columns of ``agent_events`` that decide on windows."""


def window_events(events: pl.DataFrame) -> pl.DataFrame:
    """Return WINDOW_EVENTS of whole sessions, split in the same way as ``agent_sessions``.

    Args:
        events: Rows of ``agent_events`` with WINDOW_COLUMNS; dons and doffs become no rows.

    Raises:
        QueryError: The SQL failed.
    """
    return run_query(
        "window_events",
        views={AGENT_EVENTS.name: events},
        schema=WINDOW_EVENTS,
        steps=replace(SESSION_STEPS, last="content_hashes"),
        small=True,
    )
