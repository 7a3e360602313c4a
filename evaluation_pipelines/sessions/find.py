"""Sessions by their key or id, and rows of those that a filter chooses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol, TypeVar

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.find_session import (
    SessionNotFoundError,
    SessionRow,
    in_organization,
    match_window,
)
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex


@dataclass(frozen=True, slots=True)
class SessionName:
    """A session as people and programs name it.

    Attributes:
        session: A session key, or a session id that has one window.
        organization: The organization; needed if several organizations have such a session.
        profile: Of its scores the one by this profile; ``None`` for the one that counts.
    """

    session: str
    organization: str | None = None
    profile: str | None = None


def named_windows(stores: Stores, names: Collection[str]) -> pl.DataFrame:
    """Return the rows of ``agent_sessions`` of all sessions with some session keys or ids.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    # A database refuses a NUL, and no session has one.
    known_names = [name for name in names if "\0" not in name]
    session_ids = {part for name in known_names for part in (name, name.rpartition("#")[0])}
    known = SessionIndex(stores.ledger).dates_by_session_id(session_ids)
    dates = sorted({day for pairs in known.values() for _, day in pairs})
    return stores.lake.read(AGENT_SESSIONS, dates, where=pl.col("session_id").is_in(sorted(known)))


def find(stores: Stores, name: SessionName, rows: Sequence[SessionRow] | None = None) -> SessionRow:
    """Return the row of ``agent_sessions`` of a named session.

    Args:
        stores: The stores.
        name: Its name.
        rows: Rows among which it is; by default read for this name.

    Raises:
        SessionNotFoundError: No window has this name.
        AmbiguousSessionError: Several have it; the message lists them.
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    if rows is None:
        rows = named_windows(stores, [name.session]).rows(named=True)
    found = match_window(in_organization(rows, name.organization), name.session)
    if found is None:
        raise SessionNotFoundError(
            f"There is no session {name.session} in {stores.lake.where()}. "
            "To list them: evaluation-pipelines sessions"
        )
    return found


def find_report(stores: Stores, name: SessionName) -> Mapping[str, Any]:
    """Return the tool report of a session window.

    Raises:
        SessionNotFoundError: No window or several match, or the window has no tool call.
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    window = find(stores, name)
    found = reports_of(stores, window)
    if found.is_empty():
        advice = (
            f"If its date was built by an older version: build --date {window['session_date']}."
        )
        raise SessionNotFoundError(
            f"{window['session_key']} has no tool report: it made no tool call. {advice}"
        )
    return found.row(0, named=True)


def reports_of(stores: Stores, window: SessionRow) -> pl.DataFrame:
    """Return the row of TOOL_REPORTS of a window; none if it made no tool call.

    Raises:
        LakeError: A file cannot be read.
    """
    is_of = pl.all_horizontal(pl.col(name) == window[name] for name in SESSION_KEY)
    return stores.lake.read(TOOL_REPORTS, [window["session_date"]], where=is_of)


_KEY = pl.Schema(
    {"organization_id": pl.String(), "session_key": pl.String(), "session_date": pl.Date()}
)


class OfSession(Protocol):
    """What belongs to a session window."""

    @property
    def organization_id(self) -> str:
        """Its organization."""

    @property
    def session_key(self) -> str:
        """Its key."""

    @property
    def session_date(self) -> date:
        """Its partition."""


Item = TypeVar("Item", bound=OfSession)


def chosen_rows(lake: Lake, which: SessionFilter, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of chosen sessions, in their order.

    Args:
        lake: The lake with AGENT_SESSIONS.
        which: The filter.
        rows: Rows with the columns of SESSION_KEY and ``session_date``.

    Raises:
        LakeError: A file cannot be read.
    """
    if which.is_empty:
        return rows
    days = rows["session_date"].drop_nulls().unique().sort().to_list()
    return which.rows_of(rows, lake.read(AGENT_SESSIONS, days))


def chosen_of(lake: Lake, which: SessionFilter, items: Sequence[Item]) -> list[Item]:
    """Return the items of chosen sessions, in their order; raises LakeError."""
    if which.is_empty:
        return list(items)
    rows = [tuple(getattr(item, name) for name in _KEY) for item in items]
    keys = pl.DataFrame(rows, schema=_KEY, orient="row").with_row_index("at")
    return [items[at] for at in chosen_rows(lake, which, keys)["at"]]
