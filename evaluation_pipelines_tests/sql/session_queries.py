"""Agent sessions of a few event rows, by session key."""

from collections.abc import Iterable
from typing import Any

from evaluation_pipelines.sessions.session_queries import query_sessions
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.world.rows import Row, events_frame


def session_rows(rows: Iterable[Row], idle_minutes: int = 30) -> list[dict[str, Any]]:
    """Rows of ``agent_sessions`` in the table's order."""
    settings = Settings(session_idle_minutes=idle_minutes)
    return query_sessions(events_frame(rows), settings).to_dicts()


def windows(rows: Iterable[Row], idle_minutes: int = 30) -> dict[str, dict[str, Any]]:
    """Rows of ``agent_sessions`` of one organization: session key -> row, as they started."""
    found = session_rows(rows, idle_minutes)
    assert len({row["organization_id"] for row in found}) <= 1
    return {row["session_key"]: row for row in sorted(found, key=lambda row: row["started_at"])}


def only_window(rows: Iterable[Row], idle_minutes: int = 30) -> dict[str, Any]:
    """The one row of ``agent_sessions`` that the events make."""
    (window,) = session_rows(rows, idle_minutes)
    return window


def calls(rows: Iterable[Row]) -> dict[str, int]:
    return {key: row["total_tools"] for key, row in windows(rows).items()}


def attributions(rows: Iterable[Row]) -> dict[str, str]:
    return {key: row["attribution"] for key, row in windows(rows).items()}
