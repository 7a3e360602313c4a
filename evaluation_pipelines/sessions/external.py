"""Evaluations by other programs: events ``gen_ai.evaluation.result`` about sessions or agents."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, EXTERNAL_EVALUATIONS
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.event_texts import read_events_with_texts

_OWN = "evaluation_pipelines.evaluation.id"
_COLUMNS = (
    *("event_id", "organization_id", "session_id", "agent_id", "event_time", "error_type"),
    *("service_name", "attributes"),
)
_TRACE, _AGENT = "trace:", "agent:"
_PASSED = {
    **dict.fromkeys(("pass", "passed", "true", "yes"), True),
    **dict.fromkeys(("fail", "failed", "false", "no"), False),
}


def external_evaluations(
    lake: Lake, days: Sequence[date], session: tuple[str, str] | None = None
) -> pl.DataFrame:
    """Return the EXTERNAL_EVALUATIONS of some session dates.

    This program's own evaluations are left out. One with a trace in place of a session belongs to
    the session of that trace on the same date.

    Args:
        lake: The lake.
        days: Session dates.
        session: Organization and id of a session, ``None`` for all.

    Raises:
        LakeError: A file cannot be read.
    """
    is_evaluation = pl.col("event_name") == "evaluation"
    if session is not None:  # before rows are parsed: others may have sent a great many
        is_its = pl.col("session_id") == session[1]
        is_its |= pl.col("session_id").str.starts_with(_TRACE)
        is_evaluation &= is_its & (pl.col("organization_id") == session[0])
    found = [
        read_events_with_texts(lake, day, None, _COLUMNS, is_evaluation)
        for day in days
        if lake.read(AGENT_EVENTS, [day], ["event_id"], is_evaluation).height
    ]
    rows = [
        _row(event, said)
        for event in (row for frame in found for row in frame.to_dicts())
        if _OWN not in (said := json.loads(event["attributes"] or "{}"))
    ]
    frame = pl.DataFrame(rows, EXTERNAL_EVALUATIONS.schema)
    named = _with_sessions(lake, days, frame).sort(EXTERNAL_EVALUATIONS.order)
    return named if session is None else named.filter(session_id=session[1])


def _row(event: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    def of(name: str) -> str | None:
        value = said.get(f"gen_ai.evaluation.{name}")
        return None if value is None else str(value)

    session: str = event["session_id"]
    value: Any = said.get("gen_ai.evaluation.score.value")
    evaluator = of("evaluator.id") or of("evaluator.name") or _name(of("evaluator.source"))
    label = of("score.label")
    return {
        "evaluation_id": str(UUID(bytes=event["event_id"])),
        "organization_id": event["organization_id"],
        "session_id": None if session.startswith(_AGENT) else session,
        "agent_id": event["agent_id"],
        "name": of("name"),
        "value": float(value) if type(value) in (int, float) else None,
        "label": label,
        "passed": _PASSED.get((label or "").strip().lower()),
        "explanation": of("explanation"),
        "evaluator": " ".join(filter(None, (evaluator, of("evaluator.version")))) or None,
        "error_type": event["error_type"],
        "source": event["service_name"],
        "evaluated_at": event["event_time"],
    }


def _name(source: str | None) -> str | None:
    """Return the name of an evaluator, from its JSON if it has arguments."""
    try:
        found = json.loads(source or "")
    except (ValueError, RecursionError):  # no JSON, or too deep
        return source
    return str(found["name"]) if isinstance(found, dict) and "name" in found else source


def _with_sessions(lake: Lake, days: Sequence[date], rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the session in place of its trace."""
    traces = rows.filter(pl.col("session_id").str.starts_with(_TRACE))["session_id"]
    if traces.is_empty():
        return rows
    is_one = pl.col("trace_id").is_in(traces.str.strip_prefix(_TRACE).unique().implode())
    spans = lake.read(AGENT_EVENTS, days, ["organization_id", "trace_id", "session_id"], is_one)
    of_trace = spans.unique(["organization_id", "trace_id"], keep="first").select(
        "organization_id", session_id=_TRACE + pl.col("trace_id"), named="session_id"
    )
    joined = rows.join(of_trace, on=["organization_id", "session_id"], how="left")
    return joined.with_columns(session_id=pl.coalesce("named", "session_id")).drop("named")
