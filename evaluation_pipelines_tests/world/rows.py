"""Rows of tables with sensible defaults, so that a test shows only what matters to it."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS, EVENTS_WITH_TEXTS

Row: TypeAlias = dict[str, object]

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def row(columns: Iterable[str], *values: Mapping[str, object]) -> Row:
    """A row with all of the columns: null where nothing is given, later values for earlier ones.

    Raises:
        ValueError: A value is of no column.
    """
    found: Row = dict.fromkeys(columns)
    for given in values:
        if unknown := given.keys() - found.keys():
            raise ValueError(f"no columns: {sorted(unknown)}")
        found |= given
    return found


def frame(schema: Mapping[str, pl.DataType], rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Rows of a schema; null where a row has nothing."""
    return pl.DataFrame([row(schema, given) for given in rows], schema, orient="row")


def at(seconds: float) -> datetime:
    """The time that many seconds after the start of every test session."""
    return START + timedelta(seconds=seconds)


def event(event_name: str, seconds: float = 0.0, **columns: object) -> Row:
    """One event of session ``s1`` at ``START + seconds``; any other column is given by name.

    The event id follows from the content, so that two equal calls make the same event.
    """
    defaults: Row = {
        "event_time": at(seconds),
        "observed_time": at(seconds),
        "session_id": "s1",
        "session_date": START.date(),
        "organization_id": "default",
        "source_cli": "claude_code",
        "service_name": "claude-code",
        "event_name": event_name,
        "source_event_name": event_name,
        "time_anomaly": False,
        "source_file_id": "file",
        "source_offset": 0,
    }
    told = row(EVENTS_WITH_TEXTS, defaults, columns)
    return told | {"event_id": told["event_id"] or _content_id(told)}


def prompt(seconds: float, **columns: object) -> Row:
    """A prompt of the user."""
    return event("user_prompt", seconds, **columns)


def tool(seconds: float, *, success: bool | None = True, **columns: object) -> Row:
    """A tool call that came back: a read of 100 ms, unless told otherwise."""
    defaults: Row = {"success": success, "tool_class": "read", "duration_ms": 100.0}
    return event("tool_result", seconds, **(defaults | columns))


def decision(seconds: float, verdict: str, **columns: object) -> Row:
    """A tool call that was accepted or rejected."""
    return event("tool_decision", seconds, decision=verdict, **columns)


def api_request(seconds: float, **columns: object) -> Row:
    """An answered API request: 10 + 20 tokens, 70 cached, one cent, 1 s."""
    defaults: Row = {
        "model": "model-a",
        "provider": "provider-a",
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_tokens": 70,
        "cache_creation_tokens": 0,
        "cost_usd": 0.01,
        "cost_source": "reported",
        "duration_ms": 1000.0,
    }
    return event("api_request", seconds, **(defaults | columns))


def don(masque: str | None, seconds: float, **columns: object) -> Row:
    """An attribution line that puts a masque on, for every organization with the session."""
    return event("masque_don", seconds, masque=masque, **(_ATTRIBUTION_LINE | columns))


def doff(seconds: float, masque: str | None = None, **columns: object) -> Row:
    """An attribution line that takes a masque off; without a name, whichever is worn."""
    return event("masque_doff", seconds, masque=masque, **(_ATTRIBUTION_LINE | columns))


def events_frame(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """The rows as a frame with the schema of ``agent_events``."""
    return frame(EVENTS_WITH_TEXTS, rows).with_columns(
        has_content=pl.col("content").is_not_null(),
        has_parameters=pl.col("tool_parameters").is_not_null(),
    )


def session(**columns: object) -> Row:
    """One row of ``agent_sessions``: ten calls in five minutes after two prompts, all known."""
    defaults: Row = {
        "session_key": "s1#baseline-1",
        "session_id": "s1",
        "organization_id": "default",
        "attribution": "baseline",
        "source_cli": "claude_code",
        "task_class": "debug",
        "started_at": at(0),
        "ended_at": at(300),
        "duration_s": 300.0,
        "active_s": 300.0,
        "prompts": 2,
        "total_tools": 10,
        "tools_ok": 9,
        "tools_failed": 1,
        "total_tokens": 1000,
        "cache_read_tokens": 600,
        "cost_usd": 0.09,
        "content_hash": "0",
        "session_date": START.date(),
    }
    return row(AGENT_SESSIONS.schema, defaults, columns)


def sessions_frame(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """The rows as a frame with the schema of ``agent_sessions``."""
    return frame(AGENT_SESSIONS.schema, rows)


_ATTRIBUTION_LINE: Row = {"organization_id": None, "source_cli": None, "service_name": None}

_NOT_CONTENT = {"event_id", "session_date", "source_file_id", "source_offset"}


def _content_id(told: Row) -> bytes:
    content = [(name, value) for name, value in sorted(told.items()) if name not in _NOT_CONTENT]
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()
