"""Recorded telemetry of all agents as event rows, and its texts."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import polars as pl

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.reading import event_reader

DATA = Path(__file__).parents[2] / "data"


@cache
def events_of(agent: str) -> pl.DataFrame:
    """Return all events in the captures of an agent, without duplicates."""
    reader = event_reader(Settings(), datetime(2026, 12, 1, tzinfo=UTC))
    for line in (DATA / agent / "logs.pbjson.jsonl").read_bytes().split(b"\n"):
        reader.read(line, Origin("logs", 0))
    return reader.take(0).events.unique("event_id", keep="first", maintain_order=True)


@cache
def sessions_of(agent: str) -> tuple[pl.DataFrame, ...]:
    """Return the events of an agent by session."""
    by_session = events_of(agent).partition_by("session_id", maintain_order=True)
    return tuple(by_session)


def texts_of(agent: str) -> str:
    """Return all prompts, replies, parameters, results and errors of an agent."""
    events = events_of(agent)
    columns = ("content", "tool_parameters", "error")
    return "\n".join(text for column in columns for text in events[column].drop_nulls())
