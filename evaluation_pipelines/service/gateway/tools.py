"""Tool reports in the form of the gateway."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.scorecards.domain.withheld import SessionKey, withhold
from evaluation_pipelines.service.rows import camel_row, json_value, without
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.stores import Stores

TOOL_TEXTS = frozenset({"parameters", "correcting_parameters", "error"})
"""Fields of calls that agents and tools wrote."""

_LISTS = {
    "wastedCalls": "wasted",
    "repeatedCalls": "repeats",
    "corrections": "corrections",
    "failedCalls": "failures",
    "loops": "loops",
}
_FIGURES = ("total_calls", "lost_calls", "lost_usd", "is_flagged", "basis")


def tool_report(
    stores: Stores, window: SessionRow, waiting: frozenset[SessionKey], *, texts: bool
) -> dict[str, Any]:
    """Return ``toolIntelligence`` of a session, with the reason if it is null.

    Scores of the sessions ``waiting`` are withheld.
    """
    of_session = pl.all_horizontal(pl.col(name) == window[name] for name in SESSION_KEY)
    rows = stores.lake.read(TOOL_REPORTS, [window["session_date"]], where=of_session)
    rows = withhold(rows, waiting)
    if rows.is_empty():
        return {"toolIntelligence": None, "reason": "no tool calls"}
    return {
        "runId": window["session_key"],
        "toolIntelligence": tool_intelligence(rows.row(0, named=True), texts=texts),
    }


def tool_intelligence(report: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    """Return the fields of a tool report; a list of a class of calls that is unknown is null."""
    shown = report if texts else without(report, TOOL_TEXTS)
    lists = {name: _calls(shown[column]) for name, column in _LISTS.items()}
    return {
        "effectivenessScore": json_value(shown["effectiveness_score"]),
        **lists,
        **camel_row({name: shown[name] for name in _FIGURES}),
    }


def _calls(calls: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if calls is None:
        return None
    rows = [camel_row(each) for each in calls]
    for row in rows:
        if "similarity" in row:
            row["paramSimilarity"] = row.pop("similarity")
    return rows
