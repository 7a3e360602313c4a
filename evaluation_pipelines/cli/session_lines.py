"""The table of sessions that several commands print."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evaluation_pipelines.cli.output import (
    one_line,
    print_line,
    print_table,
)
from evaluation_pipelines.judging.domain.badge import Badge
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.summary import session_summary

_STORED_COLUMNS = (
    *("session key", "score #", "agent", "model", "judge", "composite #", "recommendation"),
    *("program", "masque", "started (UTC)", "tools #", "failed #", "organization"),
)
"""The most important columns first: a narrow terminal leaves out the last ones."""

_COLUMNS = (
    "session key",
    "composite #",
    "program",
    "model",
    "recommendation",
    *_STORED_COLUMNS[8:],
)
"""The same of sessions that are not stored, which no judge and no person has scored."""

_ESSENTIAL = 4


@dataclass(frozen=True, slots=True)
class ShownScore:
    """Scores of a stored session: the one that counts with its band, and the judge's."""

    counting: str | None
    badge: Badge


ShownScores: TypeAlias = Mapping[tuple[str, str], ShownScore]
"""By (organization_id, session_key)."""


def session_key_of(row: SessionRow) -> tuple[str, str]:
    """Return (organization_id, session_key)."""
    return row["organization_id"], row["session_key"]


def print_sessions(
    rows: Sequence[SessionRow], scores: ShownScores | None = None, title: str = "Sessions"
) -> None:
    """Print a table with one line per session; ``scores`` are those of stored sessions."""
    if scores is None:
        print_table(title, _COLUMNS, map(_line, rows), _ESSENTIAL)
        return
    lines = [_stored_line(row, scores[session_key_of(row)]) for row in rows]
    print_table(title, _STORED_COLUMNS, lines, _ESSENTIAL)
    print_line(_scales({scores[session_key_of(row)].badge.model for row in rows} - {None}))


def _scales(judge_models: Collection[str | None]) -> str:
    """Return what the numbers of the table mean, and which models judged."""
    by = ", ".join(sorted(one_line(f"{each}") for each in judge_models)) or "no model yet"
    bands = "0-49 red, 50-74 yellow, 75-100 green"
    return (
        f"\nscore: the one that counts, {bands}; judge: total by {by} (judge list); composite 0-10"
    )


def _line(row: SessionRow) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        *(row["session_key"], summary["composite"], row["source_cli"], row["model"]),
        *(summary["recommendation"], summary["masque"], *_facts(row)),
    )


def _stored_line(row: SessionRow, score: ShownScore) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        *(row["session_key"], score.counting, row["agent_id"], row["model"], score.badge.text),
        *(summary["composite"], summary["recommendation"], row["source_cli"], summary["masque"]),
        *_facts(row),
    )


def _facts(row: SessionRow) -> tuple[object, ...]:
    return (
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["total_tools"],
        row["tools_failed"],
        row["organization_id"],
    )
