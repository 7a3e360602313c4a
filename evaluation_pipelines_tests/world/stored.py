"""Sessions that a lake holds, with their evaluations, cards, overrides and outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_EVALUATIONS, Table
from evaluation_pipelines.scorecards.store import NewOverride
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines_tests.world.rows import START, Row, at, frame, session
from evaluation_pipelines_tests.world.scorecards import evaluated_session, new_override, scorecard

DAY = START.date()
_SHARED = (
    *("session_key", "session_id", "started_at", "ended_at", "model", "provider"),
    *("content_hash", "classification_label"),
)


def evaluation(number: int, score: float | None = 80.0, **columns: object) -> Row:
    """The evaluation of session ``s<number>``: its scorecard by p version 1."""
    named = {"session_key": f"s{number}#baseline-1", "session_id": f"s{number}"}
    times = {"started_at": at(number), "ended_at": at(number + 300)}
    row = evaluated_session(score, **(named | times | columns))
    automatic = {"automatic_100": row["effective_100"], "automatic_source": row["effective_source"]}
    return row | automatic


def evaluated_row(evaluation: Row, **columns: object) -> Row:
    """The row of ``agent_sessions`` that belongs to an evaluation."""
    return session(**({name: evaluation[name] for name in _SHARED} | columns))


def card(number: int, score: float, scored: timedelta, **columns: object) -> Row:
    """A card of session ``s<number>`` that was written so long after the start."""
    names = {"card_id": f"card {number} {score}", "session_key": f"s{number}#baseline-1"}
    times = {"started_at": at(number), "scored_at": START + scored}
    return scorecard(score / 10, **(names | times | columns))


def override(number: int, score: float, **columns: Any) -> NewOverride:
    """What Ada says of session ``s<number>``, on a scale of 0 to 10."""
    scale = {"scale_max": 10.0, "automatic_score": 8.0, "session_key": f"s{number}#baseline-1"}
    return new_override(score / 10, **(scale | columns))


def put(lake: Lake, table: Table, rows: Iterable[Mapping[str, object]], day: date = DAY) -> None:
    """Write one date of a table; columns that a row does not have are null."""
    dated = frame(table.schema, rows).with_columns(session_date=pl.lit(day))
    if table.several_files:
        lake.write_slot(dated, table, day, "p-v1")
    else:
        lake.write(dated, table, day)


def put_sessions(
    lake: Lake, evaluations: Sequence[Row], day: date = DAY, sessions: Iterable[Row] | None = None
) -> None:
    """Write evaluations and their sessions, of eight people in turn unless they are given."""
    of_eight = (
        evaluated_row(row, person_id=f"user {place % 8}") for place, row in enumerate(evaluations)
    )
    put(lake, AGENT_SESSIONS, of_eight if sessions is None else sessions, day)
    put(lake, SESSION_EVALUATIONS, evaluations, day)
