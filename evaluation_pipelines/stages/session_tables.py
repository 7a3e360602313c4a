"""The daily tables from events to session scores."""

from datetime import date, datetime, timedelta

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
from evaluation_pipelines.stages.session_queries import query_events, query_sessions
from evaluation_pipelines.stages.stores import Stores


def agent_events(stores: Stores, day: date, now: datetime) -> Made:
    """The landed events of a date, deduplicated."""
    parts = merged_parts(stores, day, now)
    paths = [stores.lake.root / part.path for part in parts]
    events = AGENT_EVENTS.schema.to_frame() if not paths else query_events(paths)
    landed = sum(part.row_count for part in parts)
    return Made(
        AGENT_EVENTS,
        events,
        (quality.keys_are_unique(events, AGENT_EVENTS),),
        {"landed": landed, "duplicates": landed - events.height},
    )


def agent_sessions(stores: Stores, day: date, _now: datetime) -> Made:
    """The session windows of a date."""
    sessions = query_sessions([stores.lake.partition(AGENT_EVENTS, day)], stores.settings)
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
