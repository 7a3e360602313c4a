"""Session windows and their events, as the judge needs them, from the lake."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.exclusions import excluded_by
from evaluation_pipelines.settings.exclusions import Rules
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.queries import run_query

WindowKey = tuple[str, str]
"""organization_id and session_key."""

_COLUMNS = {
    "organization_id": "organization_id",
    "session_key": "session_key",
    "session_id": "session_id",
    "session_date": "session_date",
    "agent_id": "agent_id",
    "model": "agent_model",
    "classification_label": "classification_label",
    "started_at": "started_at",
    "ended_at": "ended_at",
    "content_level": "content_level",
    "content_hash": "content_hash",
}
_PLACES = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "position": pl.Int64(),
        "event_id": pl.Binary(),
    }
)


def key_of(window: Window) -> WindowKey:
    """By what a window is known."""
    return window.organization_id, window.session_key


def read_windows(
    lake: Lake,
    days: Iterable[date],
    as_of: datetime,
    idle_minutes: int,
    session_ids: Collection[str] | None = None,
    rules: Rules | None = None,
) -> list[Window]:
    """The session windows of some dates, and which of them had ended by a time.

    Only those of ``session_ids``, where these are named. ``rules`` say which are left out.

    Raises:
        LakeError: a file cannot be read.
    """
    named_by_rules = {column for wanted in (rules or {}).values() for column in wanted}
    others = ["explicit_end", *sorted(named_by_rules - _COLUMNS.keys())]
    some = None if session_ids is None else pl.col("session_id").is_in(list(session_ids))
    rows = lake.read(AGENT_SESSIONS, days, [*_COLUMNS, *others], some)
    ended = is_terminal(pl.lit(as_of), idle_minutes)
    named = rows.with_columns(ended, excluded_by(rules or {})).drop(others).rename(_COLUMNS)
    return [Window(**row) for row in named.iter_rows(named=True)]


def read_events(lake: Lake, day: date, windows: Sequence[Window]) -> dict[WindowKey, pl.DataFrame]:
    """The events of windows of one date (AGENT_EVENTS, in order), cut as ``agent_sessions`` is.

    A window that has other content in the lake by now is absent: its session went on meanwhile.

    Raises:
        LakeError: the file cannot be read.
        QueryError: the SQL failed.
    """
    session_ids = sorted({each.session_id for each in windows})
    events = lake.read(AGENT_EVENTS, [day], where=pl.col("session_id").is_in(session_ids))
    places = run_query(
        "window_events",
        steps_of=AGENT_SESSIONS.name,
        views={AGENT_EVENTS.name: events},
        schema=_PLACES,
        small=True,
    )
    wanted = {(*key_of(each), each.content_hash) for each in windows}
    key = ["organization_id", "session_key", "content_hash"]
    by_window = places.partition_by(key, as_dict=True, maintain_order=True)
    return {
        (str(which[0]), str(which[1])): _in_order(events, of_window)
        for which, of_window in by_window.items()
        if which in wanted
    }


def _in_order(events: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    placed = events.join(places.select("event_id", "position"), on="event_id", how="inner")
    return placed.sort("position").select(AGENT_EVENTS.schema.names())
