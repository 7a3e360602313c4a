"""Table of tool reports."""

from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.schemas.table import BLIND, UTC_TIME, WINDOW, Table, columns

_Fields: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

_PLACE: _Fields = {
    "call": pl.Int64,
    "called_at": UTC_TIME,
    "tool": pl.String,
    "parameters": pl.String,
}

BY_TOOL = pl.Struct(
    {
        "tool": pl.String,
        "tool_class": pl.String,
        "calls": pl.Int64,
        "failed": pl.Int64,
        "denied": pl.Int64,
        "repeated": pl.Int64,
        "corrected": pl.Int64,
        "wasted": pl.Int64,
        "lost_calls": pl.Float64,
        "p50_ms": pl.Float64,
        "p95_ms": pl.Float64,
        "bytes_returned": pl.Int64,
        "bytes_known_calls": pl.Int64,
        "lost_tokens": pl.Float64,
        "lost_usd": pl.Float64,
    }
)
_TEXTS = ("parameters", "correcting_parameters", "error")
FAILURE = pl.Struct({**_PLACE, "error": pl.String})
REPEAT = pl.Struct(
    {
        **_PLACE,
        "original": pl.Int64,
        "original_at": UTC_TIME,
        "similarity": pl.Float64,
        "distance": pl.Int64,
    }
)
CORRECTION = pl.Struct(
    {
        **_PLACE,
        "corrected_by": pl.Int64,
        "corrected_at": UTC_TIME,
        "correcting_tool": pl.String,
        "correcting_parameters": pl.String,
        "similarity": pl.Float64,
    }
)
UNUSED = pl.Struct({**_PLACE, "new_tokens": pl.Int64, "bytes_returned": pl.Int64})
LOOP = pl.Struct(
    {
        "first_call": pl.Int64,
        "last_call": pl.Int64,
        "calls": pl.Int64,
        "called_at": UTC_TIME,
        "last_called_at": UTC_TIME,
        "tool": pl.String,
        "parameters": pl.String,
    }
)

TOOL_REPORTS = Table(
    has_texts=True,
    name="tool_reports",
    grain="one row per session window with tool calls: what they were worth",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=columns(
        *WINDOW,
        ("source_cli", pl.String, "agent program"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        ("started_at", UTC_TIME, "start of the window"),
        ("total_calls", pl.Int64, "calls that succeeded or failed; places count these from 1"),
        ("failed_calls", pl.Int64, "calls that failed"),
        ("denied_calls", pl.Int64, "calls that were refused; not in total_calls"),
        ("unknown_calls", pl.Int64, "calls of unknown outcome; not in total_calls"),
        ("calls_with_parameters", pl.Int64, "of total_calls, those with logged parameters"),
        ("results_logged", pl.Int64, "of the successful calls, those whose result is logged"),
        ("repeated_calls", pl.Int64, "calls like an earlier one, nothing changed in between"),
        ("corrected_calls", pl.Int64, "failed calls that another tool made good soon after"),
        ("wasted_calls", pl.Int64, "successful calls whose result was used by nothing later"),
        ("looping_calls", pl.Int64, "calls in loops of three or more alike that all failed"),
        ("lost_calls", pl.Float64, "sum of the penalties: 1 failed or wasted, 0.5 corrected, ..."),
        ("effectiveness_score", pl.Float64, "0-100: 100 * (1 - lost_calls / total_calls)", BLIND),
        ("is_flagged", pl.Boolean, "effectiveness_score is below 60", BLIND),
        ("basis", pl.String, "what the score counts, what is unknown and why, what was cut short"),
        ("unknown", pl.List(pl.String), "classes that are not known and left out of the score"),
        (
            "bytes_returned",
            pl.Int64,
            "bytes that calls gave back, of those that tell; without a result those of the error",
        ),
        ("bytes_known_calls", pl.Int64, "of total_calls, those whose size is known"),
        ("lost_tokens", pl.Float64, "estimate, 4 bytes each, of what lost calls gave back"),
        (
            "lost_usd",
            pl.Float64,
            "lost_tokens at the session's mean price; null if it has fewer",
        ),
        ("by_tool", pl.List(BY_TOOL), "one entry per tool, the most called first"),
        ("failures", pl.List(FAILURE), "failed calls with what their errors say"),
        ("repeats", pl.List(REPEAT), "repeated calls with the earliest call each repeats"),
        ("corrections", pl.List(CORRECTION), "failed calls with the call that made each good"),
        ("wasted", pl.List(UNUSED), "wasted calls; new_tokens: words that were new in the result"),
        ("untraced", pl.List(UNUSED), "used by no later call, but replies are not logged"),
        ("loops", pl.List(LOOP), "failing loops, first and last call of each"),
        ("content_hash", pl.String, "content the report belongs to"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)

TOOL_REPORT_TEXTS = {
    each.name: texts
    for each in TOOL_REPORTS.columns
    if isinstance(each.dtype, pl.List) and isinstance(each.dtype.inner, pl.Struct)
    if (texts := [text.name for text in each.dtype.inner.fields if text.name in _TEXTS])
}
"""Fields that are texts of sessions, by column of ``tool_reports``."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tool calls of whole sessions: ``rows`` are TOOL_CALLS, ``windows`` their CALL_WINDOWS."""

    rows: pl.DataFrame
    windows: pl.DataFrame
