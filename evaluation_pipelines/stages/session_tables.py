"""The daily tables from events to session scores."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.adapters.ledger.records import Part
from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.domain.sessions.performance import (
    HISTORY_DAYS,
    WEIGHTS,
    percentile_in_class,
    score_sessions,
)
from evaluation_pipelines.stages.compaction import merged_parts
from evaluation_pipelines.stages.daily_table import Made
from evaluation_pipelines.stages.session_queries import (
    query_events,
    query_sessions,
    rows_by_date,
)
from evaluation_pipelines.stages.stores import Stores


def agent_events(stores: Stores, days: Sequence[date], now: datetime) -> dict[date, Made]:
    """The landed events of some dates, deduplicated."""
    parts = {day: merged_parts(stores, day, now) for day in days}
    paths = [stores.lake.root / part.path for each in parts.values() for part in each]
    found = query_events(paths) if paths else AGENT_EVENTS.schema.to_frame()
    return {day: _events(events, parts[day]) for day, events in rows_by_date(found, days).items()}


def _events(events: pl.DataFrame, parts: Sequence[Part]) -> Made:
    landed = sum(part.row_count for part in parts)
    return Made(
        AGENT_EVENTS,
        events,
        (quality.keys_are_unique(events, AGENT_EVENTS),),
        {"landed": landed, "duplicates": landed - events.height},
    )


def agent_sessions(stores: Stores, days: Sequence[date], _now: datetime) -> dict[date, Made]:
    """The session windows of some dates."""
    paths = [stores.lake.partition(AGENT_EVENTS, day) for day in days]
    sessions = rows_by_date(query_sessions(paths, stores.settings), days)
    return {day: _sessions(stores, day, windows) for day, windows in sessions.items()}


def _sessions(stores: Stores, day: date, sessions: pl.DataFrame) -> Made:
    columns = ["organization_id", "session_id", "event_name"]
    events = stores.lake.read(AGENT_EVENTS, [day], columns)
    return Made(
        AGENT_SESSIONS,
        sessions,
        (
            quality.keys_are_unique(sessions, AGENT_SESSIONS),
            quality.every_event_is_in_a_session(events, sessions, AGENT_SESSIONS),
            quality.sequences_have_no_gaps(sessions, AGENT_SESSIONS),
        ),
    )


def session_performance(stores: Stores, day: date, _now: datetime) -> Made:
    """The scores of the session windows of a date."""
    lake, table = stores.lake, SESSION_PERFORMANCE
    before = [day - timedelta(days=days) for days in range(HISTORY_DAYS, 0, -1)]
    sessions = lake.read(AGENT_SESSIONS, [day])
    history = score_sessions(lake.read(AGENT_SESSIONS, before))
    scores = percentile_in_class(score_sessions(sessions), history)
    return Made(
        table,
        scores,
        (
            quality.keys_are_unique(scores, table),
            quality.scores_are_in_range(scores, table, (*WEIGHTS, "composite")),
            quality.every_score_has_its_session(scores, sessions, table),
        ),
        {"scored": int(scores["scorable"].sum()), "partial": int(scores["partial"].sum())},
    )
