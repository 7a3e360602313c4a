"""Reader of session windows and their events from the lake."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.schemas import AGENT_SESSIONS, EVENTS_WITH_TEXTS
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.performance import excluded_by
from evaluation_pipelines.sessions.session_queries import window_events
from evaluation_pipelines.settings.exclusions import Rules
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired, expired_dates
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION
from evaluation_pipelines.telemetry.event_texts import read_events_with_texts

WindowKey = tuple[str, str]
"""(organization_id, session_key)"""

_WINDOW = ["session_date", "organization_id", "session_key", "content_hash"]
"""Columns that name the content of a window."""

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


def window_key(window: Window) -> WindowKey:
    """Return the key of a window."""
    return window.organization_id, window.session_key


def read_windows(
    stores: Stores, days: Iterable[date], as_of: datetime, rules: Rules | None = None
) -> list[Window]:
    """Read the session windows of some dates.

    Args:
        stores: Lake, ledger and settings.
        days: Session dates.
        as_of: The time for ``is_terminal``.
        rules: Exclusion rules of the user, for ``excluded_by``.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    rows = stores.lake.read(AGENT_SESSIONS, days, [*_COLUMNS, *_extra_columns(rules)])
    return _windows(stores, rows, as_of, rules)


def window_of(
    stores: Stores, session: SessionRow, as_of: datetime, rules: Rules | None = None
) -> Window:
    """Return the window of a row of ``agent_sessions``; as ``read_windows``.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    columns = [*_COLUMNS, *_extra_columns(rules)]
    schema = {name: AGENT_SESSIONS.schema[name] for name in columns}
    row = pl.DataFrame([[session[name] for name in columns]], schema, orient="row")
    (window,) = _windows(stores, row, as_of, rules)
    return window


def _extra_columns(rules: Rules | None) -> list[str]:
    """Return the columns that decide on a window but are not part of it."""
    of_rules = set(excluded_by(rules or {}).meta.root_names())
    return ["explicit_end", *sorted(of_rules - _COLUMNS.keys())]


def _windows(
    stores: Stores, rows: pl.DataFrame, as_of: datetime, rules: Rules | None
) -> list[Window]:
    ended = is_terminal(pl.lit(as_of), stores.settings.session_idle_minutes)
    renamed = rows.with_columns(ended, excluded_by(rules or {})).drop(_extra_columns(rules))
    expired = expired_dates(stores.ledger)
    windows = (Window(**row) for row in renamed.rename(_COLUMNS).iter_rows(named=True))
    return [_without_expired_texts(window, expired.get(window.session_date)) for window in windows]


def _without_expired_texts(window: Window, expired: Expired | None) -> Window:
    """Return a window without texts if they have expired; one that had none has lost nothing."""
    if expired is None or (expired == "texts" and window.content_level == "none"):
        return window
    return replace(window, content_level="none", expired=expired)


def read_events(lake: Lake, day: date, windows: Sequence[Window]) -> dict[WindowKey, pl.DataFrame]:
    """Read the events of windows of one date, see ``by_window``.

    Raises:
        LakeError: The file cannot be read.
        QueryError: The SQL failed.
    """
    return by_window(read_session_events(lake, day, windows), windows)


def read_session_events(lake: Lake, day: date, windows: Sequence[Window]) -> pl.DataFrame:
    """Read all events (EVENTS_WITH_TEXTS) of the sessions that windows of one date belong to.

    Raises:
        LakeError: The file cannot be read.
    """
    session_ids = sorted({window.session_id for window in windows})
    return read_events_with_texts(lake, day, pl.col("session_id").is_in(session_ids))


def by_window(events: pl.DataFrame, windows: Sequence[Window]) -> dict[WindowKey, pl.DataFrame]:
    """Split the events of whole sessions in the same way as ``agent_sessions``.

    Args:
        events: Events of the sessions (EVENTS_WITH_TEXTS), of any number of dates.
        windows: The windows that are wanted, each key once.

    Returns:
        The events of each window (EVENTS_WITH_TEXTS, in order). A window is missing if its content
        in the lake has changed since it was read.

    Raises:
        QueryError: The SQL failed.
    """
    positions = window_events(events)
    wanted = pl.DataFrame(
        [[getattr(window, name) for name in _WINDOW] for window in windows],
        {name: positions.schema[name] for name in _WINDOW},
        orient="row",
    )
    of_windows = positions.join(wanted, on=_WINDOW, how="semi")
    # The SQL names an organization for every event.
    organization = pl.col("organization_id").fill_null(NO_ORGANIZATION)
    split = events.with_columns(organization).join(
        of_windows, on=["session_date", "organization_id", "event_id"]
    )
    parts = split.sort(*_WINDOW, "position").partition_by(
        "organization_id", "session_key", as_dict=True
    )
    return {
        (str(organization_id), str(session_key)): part.select(EVENTS_WITH_TEXTS.names())
        for (organization_id, session_key), part in parts.items()
    }
