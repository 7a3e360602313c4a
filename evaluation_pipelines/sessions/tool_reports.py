"""The daily table of tool reports, and the lookup of one report."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.sessions.domain.checks import calls_add_up, every_report_has_its_session
from evaluation_pipelines.sessions.domain.find_session import (
    SessionNotFoundError,
    SessionRow,
    in_organization,
    match_window,
)
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports as report
from evaluation_pipelines.sessions.session_queries import query_tool_calls
from evaluation_pipelines.sessions.session_tables import (
    rows_by_date,
    text_files,
)
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.lake import Lake


def tool_reports(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the tool reports of the session windows of the batch."""
    lake, calls, batch.tool_calls = batch.stores.lake, batch.tool_calls, None
    if calls is None:
        texts = text_files(lake, batch.days)
        calls = query_tool_calls(lake.files(AGENT_EVENTS, batch.days), texts)
    sessions = lake.read(AGENT_SESSIONS, batch.days)
    reports = rows_by_date(report(calls, sessions), batch.days)
    return {day: _built(rows, sessions.filter(session_date=day)) for day, rows in reports.items()}


def _built(reports: pl.DataFrame, sessions: pl.DataFrame) -> BuiltPartition:
    table = TOOL_REPORTS
    return BuiltPartition(
        table,
        reports,
        (
            keys_are_unique(reports, table),
            every_report_has_its_session(reports, sessions, table),
            calls_add_up(reports, sessions, table),
        ),
        {"flagged": int(reports["is_flagged"].sum())},
    )


def find_report(lake: Lake, name: str, organization: str | None = None) -> Mapping[str, Any]:
    """Return the tool report of a session window.

    Args:
        lake: The lake.
        name: A session key, or a session id with a single window.
        organization: Organization of the session; ``None`` for any.

    Raises:
        SessionNotFoundError: No window or several match, or the window has no tool call.
        LakeError: A file cannot be read.
    """
    columns = [*SESSION_KEY, "session_id", "session_date"]
    windows = lake.read(AGENT_SESSIONS, lake.partitions(AGENT_SESSIONS), columns)
    named = windows.filter(pl.any_horizontal(pl.col("session_key", "session_id") == name))
    rows = named.sort("session_key", "organization_id").rows(named=True)
    window = match_window(in_organization(rows, organization), name)
    if window is None:
        raise SessionNotFoundError(
            f"There is no session {name} among the {windows.height} of the lake. "
            "To list them: evaluation-pipelines sessions"
        )
    return _report_of(lake, window)


def _report_of(lake: Lake, window: SessionRow) -> Mapping[str, Any]:
    day = window["session_date"]
    reports = lake.read(TOOL_REPORTS, [day])
    found = reports.filter(pl.col(name) == window[name] for name in SESSION_KEY)
    if found.is_empty():
        advice = f"If its date was built by an older version: build --date {day}."
        raise SessionNotFoundError(
            f"{window['session_key']} has no tool report: it made no tool call. {advice}"
        )
    return found.row(0, named=True)
