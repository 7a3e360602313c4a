"""The table of sessions that several commands print."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from evaluation_pipelines.cli.output import (
    one_line,
    print_line,
    print_table,
    shortened_to,
)
from evaluation_pipelines.judging.domain.badge import Badge
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.summary import session_summary

_COLUMNS = (
    *("session key", "composite #", "judge", "program", "model", "recommendation", "masque"),
    *("started (UTC)", "tools #", "failed #", "organization"),
)
"""The most important columns first: a narrow terminal leaves out the last ones."""

_ESSENTIAL = 5
_SHORTENED = {"model": shortened_to(16)}

Badges: TypeAlias = Mapping[tuple[str, str], Badge]
"""(organization_id, session_key) -> badge of the judge score."""


def session_key_of(row: SessionRow) -> tuple[str, str]:
    """Return (organization_id, session_key)."""
    return row["organization_id"], row["session_key"]


def print_sessions(
    rows: Sequence[SessionRow], badges: Badges | None = None, title: str = "Sessions"
) -> None:
    """Print a table with one line per session; without ``badges``, no judge is mentioned."""
    if badges is None:
        lines = [_line(row, None) for row in rows]
        columns = [each for each in _COLUMNS if each != "judge"]
        print_table(title, columns, lines, _ESSENTIAL - 1, _SHORTENED)
        return
    lines = [_line(row, badges[session_key_of(row)]) for row in rows]
    print_table(title, _COLUMNS, lines, _ESSENTIAL, _SHORTENED)
    print_line(_scales({badges[session_key_of(row)].model for row in rows} - {None}))


def _scales(judge_models: Collection[str | None]) -> str:
    """Return what the numbers of the table mean, and which models judged."""
    by = ", ".join(sorted(one_line(f"{each}") for each in judge_models)) or "no model yet"
    bands = "0-49 red, 50-74 yellow, 75-100 green"
    return f"\ncomposite 0-10; judge {bands}, by {by} (judge list)"


def _line(row: SessionRow, judged: Badge | None) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        row["session_key"],
        summary["composite"],
        *(() if judged is None else (judged.text,)),
        row["source_cli"],
        row["model"],
        summary["recommendation"],
        summary["masque"],
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["total_tools"],
        row["tools_failed"],
        row["organization_id"],
    )
