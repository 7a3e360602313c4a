"""Every session in memory, for lists that are filtered and sorted by anything."""

from collections.abc import Callable, Collection, Mapping
from datetime import date
from threading import Lock
from typing import TypeAlias

import polars as pl
from fastapi.requests import HTTPConnection

from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.withheld import SessionKey, with_waiting, withhold
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.service.date_cache import DateCache
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_COLUMNS: Mapping[Table, tuple[str, ...]] = {
    AGENT_SESSIONS: (
        *("session_id", "session_date", "started_at", "ended_at", "content_hash"),
        *("person_id", "team", "repository", "branch", "environment", "agent_id", "source_cli"),
        *("model", "classification_label", "status", "active_s", "total_tokens", "cost_usd"),
        *("total_tools", "tools_failed"),
    ),
    SESSION_PERFORMANCE: ("composite", "recommendation"),
    SESSION_EVALUATIONS: (
        *("effective_100", "effective_source", "profile_id", "judge_total", "judge_model"),
        *("reason",),
        "excluded_by",
    ),
}
"""Columns of a row, in addition to those of SESSION_KEY."""

_MOST_VIEWS = 16
"""Sets of withheld scores that are kept: one for each reviewer who has seen others."""

_Step: TypeAlias = Callable[[pl.DataFrame, Collection[SessionKey]], pl.DataFrame]


class SessionTable:
    """Rows of all session windows; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._cache = DateCache(tuple(_COLUMNS), _read)
        self._rows = self._shown = _no_rows()
        self._organizations: list[str] = []
        self._overrides: pl.DataFrame | None = None
        self._seen = dict[tuple[_Step, frozenset[SessionKey]], pl.DataFrame]()

    def organizations(self) -> list[str]:
        """Return the organizations that have sessions, in alphabetical order; raises as rows."""
        with self._lock:
            self._refresh()
            return self._organizations

    def dates(self, condition: pl.Expr) -> list[date]:
        """Return the dates of the session windows that meet a condition on AGENT_SESSIONS.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            self._refresh()
            rows = self._rows
        # Lazy: a condition of literals alone fails on a frame of several chunks otherwise.
        found = rows.lazy().filter(condition).select(pl.col("session_date").unique())
        return found.collect()["session_date"].to_list()

    def rows(self, waiting: frozenset[SessionKey] = frozenset()) -> pl.DataFrame:
        """Return a row for each session window, the newest first, as ``withhold`` returns it.

        Overrides count from the moment they are made. What is not built yet is null.

        Args:
            waiting: Sessions whose scores are withheld.

        Raises:
            LakeError: A file cannot be read.
            LedgerError: The ledger cannot be used.
        """
        return self._as_seen(withhold, waiting)

    def marked_rows(self, waiting: frozenset[SessionKey]) -> pl.DataFrame:
        """Return the same with all scores, as ``with_waiting`` returns it; raises as rows."""
        return self._as_seen(with_waiting, waiting)

    def _as_seen(self, step: _Step, waiting: frozenset[SessionKey]) -> pl.DataFrame:
        overrides = OverrideStore(self._stores.ledger).of_dates()
        with self._lock:
            is_new = self._refresh()
            if is_new or self._overrides is None or not overrides.equals(self._overrides):
                self._overrides = overrides
                self._shown = with_newest_overrides(self._rows, overrides)
                self._seen.clear()
            asked = step, waiting
            if asked not in self._seen:
                if len(self._seen) >= _MOST_VIEWS:  # the oldest goes
                    del self._seen[next(iter(self._seen))]
                self._seen[asked] = step(self._shown, waiting)
            return self._seen[asked]

    def _refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        if self._cache.is_current(self._stores.lake):
            return False
        lake = self._stores.lake.snapshot()  # the tables of one moment
        rows = pl.concat([_no_rows(), *self._cache.values(lake)])
        self._rows = rows.sort(
            "started_at", *SESSION_KEY, descending=[True, False, False], nulls_last=True
        )
        self._organizations = rows["organization_id"].unique().sort().to_list()
        return True


def session_table_of(connection: HTTPConnection) -> SessionTable:
    """Return the sessions of the service of a request."""
    table: SessionTable = connection.app.state.session_table
    return table


def _read(lake: Lake, day: date) -> pl.DataFrame:
    sessions, performance, evaluations = (
        lake.read(table, [day], [*SESSION_KEY, *names]) for table, names in _COLUMNS.items()
    )
    return sessions.join(performance, on=SESSION_KEY, how="left").join(
        evaluations, on=SESSION_KEY, how="left"
    )


def _no_rows() -> pl.DataFrame:
    sessions, performance, evaluations = (
        table.no_rows.select(*SESSION_KEY, *names) for table, names in _COLUMNS.items()
    )
    return sessions.join(performance, on=SESSION_KEY, how="left").join(
        evaluations, on=SESSION_KEY, how="left"
    )
