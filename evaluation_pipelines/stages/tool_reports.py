"""The daily table of tool reports, and how one report is found again."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    TOOL_REPORTS,
)
from evaluation_pipelines.domain.tools.report import tool_reports as report
from evaluation_pipelines.stages.daily_table import Batch, Made
from evaluation_pipelines.stages.score import SessionNotFoundError
from evaluation_pipelines.stages.session_queries import query_tool_calls, rows_by_date


def tool_reports(batch: Batch) -> dict[date, Made]:
    """The tool reports of the session windows of some dates."""
    lake, calls, batch.tool_calls = batch.stores.lake, batch.tool_calls, None
    if calls is None:
        calls = query_tool_calls([lake.partition(AGENT_EVENTS, day) for day in batch.days])
    sessions = lake.read(AGENT_SESSIONS, batch.days)
    reports = rows_by_date(report(calls, sessions), batch.days)
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
