"""The daily table of tool reports, and how one report is found again."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.queries import Source, run_query
from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    TOOL_REPORTS,
)
from evaluation_pipelines.domain.tools.calls import TOOL_CALLS
from evaluation_pipelines.domain.tools.report import tool_reports as report
from evaluation_pipelines.stages.daily_table import Made
from evaluation_pipelines.stages.score import SessionNotFoundError
from evaluation_pipelines.stages.session_queries import rows_by_date
from evaluation_pipelines.stages.stores import Stores


def tool_reports(stores: Stores, days: Sequence[date], _now: datetime) -> dict[date, Made]:
    """The tool reports of the session windows of some dates."""
    lake = stores.lake
    calls = query_tool_calls([lake.partition(AGENT_EVENTS, day) for day in days])
    sessions = lake.read(AGENT_SESSIONS, days)
    reports = rows_by_date(report(calls, sessions), days)
    return {day: _made(rows, sessions.filter(session_date=day)) for day, rows in reports.items()}


def _made(reports: pl.DataFrame, sessions: pl.DataFrame) -> Made:
    table = TOOL_REPORTS
    return Made(
        table,
        reports,
        (
            quality.keys_are_unique(reports, table),
            quality.every_report_has_its_session(reports, sessions, table),
            quality.calls_add_up(reports, sessions, table),
        ),
        {"flagged": int(reports["is_flagged"].sum())},
    )


def query_tool_calls(events: Source) -> pl.DataFrame:
    """Tool calls (TOOL_CALLS) of deduplicated events: files of the lake, or a frame."""
    return run_query(
        "tool_calls",
        views={AGENT_EVENTS.name: events},
        schema=TOOL_CALLS,
        steps_of=AGENT_SESSIONS.name,
        last_step="call_outcomes",
    )


def find_report(lake: Lake, wanted: str) -> Mapping[str, Any]:
    """The tool report of a session window, named by its key or by an unambiguous session id.

    Raises:
        SessionNotFoundError: no window or several fit, or the one that fits made no tool call.
        LakeError: a file cannot be read.
    """
    columns = ["organization_id", "session_key", "session_id", "session_date"]
    windows = lake.read(AGENT_SESSIONS, lake.partitions(AGENT_SESSIONS), columns)
    for name in ("session_key", "session_id"):
        found = windows.filter(pl.col(name) == wanted).sort("session_key", "organization_id")
        if found.height > 1:
            keys = ", ".join(f"{key} of {of}" for of, key, *_ in found.iter_rows())
            raise SessionNotFoundError(f"{wanted} has several windows; name one of: {keys}")
        if found.height == 1:
            return _report_of(lake, found)
    raise SessionNotFoundError(
        f"There is no session {wanted} among the {windows.height} of the lake. "
        "The command sessions lists them."
    )


def _report_of(lake: Lake, window: pl.DataFrame) -> Mapping[str, Any]:
    day = window["session_date"].item()
    reports = lake.read(TOOL_REPORTS, [day])
    found = reports.join(window, on=["organization_id", "session_key"], how="semi")
    if found.is_empty():
        advice = f"If its date was built by an older version: build --date {day}."
        raise SessionNotFoundError(
            f"{window['session_key'].item()} has no tool report: it made no tool call. {advice}"
        )
    return found.row(0, named=True)
