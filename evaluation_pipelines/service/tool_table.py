"""Lost tool calls of every session in memory, for sums over any of them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from threading import Lock

import polars as pl
from fastapi.requests import HTTPConnection

from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.service.date_cache import DateCache
from evaluation_pipelines.sessions.domain.tool_reports.fleet import (
    calls_by_tool,
    calls_of_windows,
    failures_of_windows,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_COLUMNS = (
    *SESSION_KEY,
    *("model", "by_tool", "failures", "is_flagged", "total_calls", "failed_calls"),
    *("corrected_calls", "repeated_calls", "wasted_calls", "lost_calls", "lost_tokens", "lost_usd"),
)


@dataclass(frozen=True, slots=True)
class ToolRows:
    """Rows of ``calls_of_windows``, ``calls_by_tool`` and ``failures_of_windows``."""

    windows: pl.DataFrame
    tools: pl.DataFrame
    failures: pl.DataFrame

    @property
    def frames(self) -> tuple[pl.DataFrame, ...]:
        """All three."""
        return self.windows, self.tools, self.failures

    def of_organization(self, organization: str) -> "ToolRows":
        """Return the rows of one organization."""
        return ToolRows(*(each.filter(organization_id=organization) for each in self.frames))

    def of_sessions(self, sessions: pl.DataFrame) -> "ToolRows":
        """Return the rows of some sessions."""
        return ToolRows(*(each.join(sessions, on=SESSION_KEY, how="semi") for each in self.frames))


class ToolTable:
    """Rows of all session windows with tool calls; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._cache = DateCache((TOOL_REPORTS, AGENT_SESSIONS), _read)

    def rows(self, days: Collection[date]) -> ToolRows:
        """Return the rows of some dates.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            found = self._cache.values(self._stores.lake.snapshot(), days)
        nothing = _rows(TOOL_REPORTS.no_rows.select(_COLUMNS), AGENT_SESSIONS.no_rows)
        every = [nothing, *found]
        return ToolRows(*map(pl.concat, zip(*(each.frames for each in every), strict=True)))


def tool_table_of(connection: HTTPConnection) -> ToolTable:
    """Return the tool calls of the service of a request."""
    table: ToolTable = connection.app.state.tool_table
    return table


def _read(lake: Lake, day: date) -> ToolRows:
    return _rows(
        lake.read(TOOL_REPORTS, [day], _COLUMNS),
        lake.read(AGENT_SESSIONS, [day], [*SESSION_KEY, "cost_usd"]),
    )


def _rows(reports: pl.DataFrame, sessions: pl.DataFrame) -> ToolRows:
    return ToolRows(
        calls_of_windows(reports, sessions),
        calls_by_tool(reports, sessions),
        failures_of_windows(reports),
    )
