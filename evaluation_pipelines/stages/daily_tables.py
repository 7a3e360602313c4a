"""The tables that are made date by date, in the order in which one needs the other.

Each function makes one partition of one table and can be repeated at any time: the same input
gives the same file. Nothing is written when a rule of severity ``error`` is broken.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.adapters.queries import Source, run_query
from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.quality import RuleResult
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.domain.sessions.performance import (
    HISTORY_DAYS,
    WEIGHTS,
    percentile_in_class,
    score_sessions,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.compaction import merged_parts
from evaluation_pipelines.stages.stores import Stores


@dataclass(frozen=True, slots=True)
class Made:
    """One partition: its rows, what is worth knowing about it, and the rules it was held to."""

    table: Table
    frame: pl.DataFrame
    rules: tuple[RuleResult, ...]
    facts: dict[str, int] = field(default_factory=dict)


class RuleBrokenError(Exception):
    """A partition breaks a rule and was not written; the one before, if any, stays."""

    def __init__(self, made: Made) -> None:
        broken = [each for each in made.rules if not each.passed and each.severity == "error"]
        super().__init__(
            "; ".join(
                f"{each.table}: {each.rule}: expected {each.expected}, found {each.found}"
                for each in broken
            )
        )
        self.made = made


@dataclass(frozen=True, slots=True)
class DailyTable:
    """How one table is made for a date, and the rules it is held to."""

    table: Table
    make: Callable[[Stores, date, datetime], Made]
    rules: tuple[Callable[..., RuleResult], ...]

    def rule_descriptions(self) -> dict[str, str]:
        """Name of each rule -> what it says."""
        return {each.__name__: (each.__doc__ or "").partition("\n")[0] for each in self.rules}


def make_partition(daily: DailyTable, stores: Stores, day: date, now: datetime) -> Made:
    """Make one partition of one table and publish it.

    Raises:
        RuleBrokenError: it breaks a rule; nothing was written.
        LakeError: an input cannot be read, or the disk refuses the result.
        QueryError: the SQL failed.
    """
    made = daily.make(stores, day, now)
    if any(not each.passed and each.severity == "error" for each in made.rules):
        raise RuleBrokenError(made)
    stores.lake.write(made.frame, daily.table, day)
    return made


def _agent_events(stores: Stores, day: date, now: datetime) -> Made:
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


def _agent_sessions(stores: Stores, day: date, _now: datetime) -> Made:
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


def _session_performance(stores: Stores, day: date, _now: datetime) -> Made:
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


DAILY_TABLES = (
    DailyTable(AGENT_EVENTS, _agent_events, (quality.keys_are_unique,)),
    DailyTable(
        AGENT_SESSIONS,
        _agent_sessions,
        (
            quality.keys_are_unique,
            quality.every_event_is_in_a_session,
            quality.sequences_have_no_gaps,
        ),
    ),
    DailyTable(
        SESSION_PERFORMANCE,
        _session_performance,
        (
            quality.keys_are_unique,
            quality.scores_are_in_range,
            quality.every_score_has_its_session,
        ),
    ),
)
