"""The relation of tool calls: what each session window lost, by tool, and what failed."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from threading import Lock
from typing import Literal

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.tool_reports.fleet import (
    calls_by_tool,
    lost_by,
    window_calls,
    window_failures,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.sessions import ByDate

_COLUMNS = (
    *SESSION_KEY,
    *("model", "by_tool", "failures", "is_flagged", "total_calls", "failed_calls"),
    *("corrected_calls", "repeated_calls", "wasted_calls", "lost_calls", "lost_tokens", "lost_usd"),
)


@dataclass(frozen=True, slots=True)
class ToolRows:
    """Rows of ``window_calls``, ``calls_by_tool`` and ``window_failures``."""

    windows: pl.DataFrame
    tools: pl.DataFrame
    failures: pl.DataFrame

    @property
    def frames(self) -> tuple[pl.DataFrame, ...]:
        """All three."""
        return self.windows, self.tools, self.failures

    def of_organization(self, organization: str) -> "ToolRows":
        """Return the rows of one organization."""
        return ToolRows(*(frame.filter(organization_id=organization) for frame in self.frames))

    def lost_by(self, by: Literal["tool", "model"]) -> pl.DataFrame:
        """Return :func:`lost_by` of all sessions."""
        return lost_by(by, self.tools if by == "tool" else self.windows)

    def of_sessions(self, sessions: pl.DataFrame) -> "ToolRows":
        """Return the rows of some sessions."""
        return ToolRows(
            *(frame.join(sessions, on=SESSION_KEY, how="semi") for frame in self.frames)
        )


def tool_calls(lake: Lake, days: Collection[date]) -> ToolRows:
    """Return the rows of some dates; raises LakeError, a file cannot be read."""
    return _rows(
        lake.read(TOOL_REPORTS, days, _COLUMNS),
        lake.read(AGENT_SESSIONS, days, [*SESSION_KEY, "cost_usd"]),
    )


class ToolCalls:
    """:func:`tool_calls` kept in memory, as a service needs; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._cache = ByDate((TOOL_REPORTS, AGENT_SESSIONS), _read)

    def rows(self, days: Collection[date]) -> ToolRows:
        """Return the rows of some dates.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            found = self._cache.values(self._stores.lake.snapshot(), days)
        every = [tool_calls(self._stores.lake, ()), *found]
        return ToolRows(
            *map(pl.concat, zip(*(tool_rows.frames for tool_rows in every), strict=True))
        )


def _read(lake: Lake, day: date) -> ToolRows:
    return tool_calls(lake, [day])


def _rows(reports: pl.DataFrame, sessions: pl.DataFrame) -> ToolRows:
    return ToolRows(
        window_calls(reports, sessions),
        calls_by_tool(reports, sessions),
        window_failures(reports),
    )
