"""The daily table of tool reports, and how one report is found again."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, TOOL_REPORTS
from evaluation_pipelines.schemas.checks import keys_are_unique
from evaluation_pipelines.sessions.domain.checks import calls_add_up, every_report_has_its_session
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports as report
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.sessions.session_queries import query_tool_calls, rows_by_date
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.lake import Lake


def tool_reports(batch: Batch) -> dict[date, BuiltPartition]:
    """The tool reports of the session windows of some dates."""
    lake, calls, batch.tool_calls = batch.stores.lake, batch.tool_calls, None
    if calls is None:
        calls = query_tool_calls([lake.partition(AGENT_EVENTS, day) for day in batch.days])
    sessions = lake.read(AGENT_SESSIONS, batch.days)
    reports = rows_by_date(report(calls, sessions), batch.days)
    return {day: _made(rows, sessions.filter(session_date=day)) for day, rows in reports.items()}


def _made(reports: pl.DataFrame, sessions: pl.DataFrame) -> BuiltPartition:
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
