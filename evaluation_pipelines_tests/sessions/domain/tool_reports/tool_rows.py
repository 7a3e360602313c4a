"""Builders of TOOL_CALLS rows, and the reports of such rows."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.sessions.domain.tool_reports.calls import CALL_WINDOWS, TOOL_CALLS
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines_tests.world.rows import START, Row, at, session, sessions_frame


def call(tool: str = "Read", outcome: str = "ok", **columns: Any) -> Row:
    """Return a call of prompt ``p1``: a Read of ``a.py`` with a result of 400 bytes after 100 ms.

    ``parameters`` may be a dictionary; ``said`` is the text of the result, by default not logged.
    """
    classes = {"Read": "read", "Grep": "search", "Edit": "edit", "Write": "write", "Bash": "shell"}
    given = {"parameters": {"file_path": "a.py"}, "said": None, **columns}
    if isinstance(given["parameters"], dict):
        given["parameters"] = json.dumps(given["parameters"])
    return {
        "session_id": "s1",
        "kind": "call",
        "outcome": outcome,
        "prompt": "p1",
        "tool": tool,
        "tool_class": classes.get(tool, "mcp" if tool.startswith("mcp__") else "other"),
        "duration_ms": 100.0,
        "has_content": given["said"] is not None and outcome == "ok",
        "hides_replies": False,
        "returned_bytes": 400,
        **given,
    }


def said(kind: str, text: str, session_id: str = "s1") -> Row:
    """Return a prompt or a reply."""
    return {
        "session_id": session_id,
        "kind": kind,
        "prompt": "p1",
        "tool": "(unnamed)",
        "tool_class": "other",
        "said": text,
        "has_content": True,
        "hides_replies": False,
    }


def calls_of(rows: Iterable[Row]) -> ToolCalls:
    """Return rows in their order, one second apart; windows are ``<session id>#baseline-1``."""
    complete: list[Row] = [
        {
            "organization_id": "default",
            "session_date": START.date(),
            "session_key": f"{row['session_id']}#baseline-1",
            "position": number,
            "event_time": at(number),
            **row,
        }
        for number, row in enumerate(rows, 1)
    ]
    for name, number in (("session_id", "session_no"), ("session_key", "window_no")):
        numbers: dict[str, int] = {}
        for row in complete:
            row[number] = numbers.setdefault(str(row[name]), len(numbers) + 1)
    windows = {row["window_no"]: row for row in complete}
    return ToolCalls(
        pl.DataFrame(complete, schema=TOOL_CALLS, orient="row"),
        pl.DataFrame(list(windows.values()), schema=CALL_WINDOWS, orient="row"),
    )


def sessions_of(rows: Sequence[Row], **columns: Any) -> pl.DataFrame:
    """Return a session window of 1000 tokens and 0.09 USD for each session id."""
    outcomes: dict[str, list[Any]] = {}
    for row in rows:
        outcomes.setdefault(str(row["session_id"]), []).append(row.get("outcome"))
    return sessions_frame(
        session(
            session_id=session_id,
            session_key=f"{session_id}#baseline-1",
            total_tools=found.count("ok") + found.count("failed"),
            tools_ok=found.count("ok"),
            tools_failed=found.count("failed"),
            tools_denied=found.count("denied"),
            tools_unknown=found.count("unknown"),
            **columns,
        )
        for session_id, found in outcomes.items()
    )


def reports(rows: Sequence[Row], **columns: Any) -> list[dict[str, Any]]:
    """Return the reports of all sessions; ``columns`` are columns of their windows."""
    return tool_reports(calls_of(rows), sessions_of(rows, **columns)).to_dicts()


def only_report(rows: Sequence[Row], **columns: Any) -> dict[str, Any]:
    """Return the report of a single session."""
    (report,) = reports(rows, **columns)
    return report
