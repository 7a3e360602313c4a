"""What the terminal program prints of sessions: scores, tables, and rows for programs."""

import json
from collections.abc import Sequence
from datetime import date

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.cli.session_rows import csv_text, json_text
from evaluation_pipelines.cli.terminal import complain, counted, one_line, print_table, say
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.domain.sessions.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.stages.score import SessionRow, session_rows

_COLUMNS = (
    "session key",
    "composite #",
    "recommendation",
    "masque",
    "started (UTC)",
    "agent",
    "model",
    "tools #",
    "failed #",
)
"""The most telling first: a narrow screen leaves out the last ones."""


def print_sessions(rows: Sequence[SessionRow], title: str = "Sessions") -> None:
    """One line a session."""
    print_table(title, _COLUMNS, [_line(row) for row in rows], essential=3)


def print_scores(rows: Sequence[SessionRow], form: str) -> None:
    """Scores as ``yaml`` (a document each), ``json`` (an array) or ``table``."""
    if form == "table":
        print_sessions(rows)
    elif form == "json":
        say(json.dumps([session_record(row) for row in rows], indent=2))
    else:
        for row in rows:
            if len(rows) > 1:
                say(f"---\n# {one_line(row['session_key'])}")
            say(to_yaml(session_summary(row)).rstrip("\n"))


def print_stored_sessions(lake: Lake, dates: list[date], limit: int, form: str) -> None:
    """The newest sessions of the lake, oldest first, as ``table``, ``json`` or ``csv``.

    What is said about the list is no part of it: beside json and csv it goes where errors go.
    """
    rows = stored_sessions(lake, dates)
    shown, remark = rows[-limit:], say if form == "table" else complain
    if form == "json":
        say(json_text(shown))
    elif form == "csv":
        say(csv_text(shown).rstrip("\n"))
    elif shown:
        print_sessions(shown)
    if not rows:
        is_empty = not lake.partitions(AGENT_SESSIONS)
        advice = " yet. Run evaluation-pipelines ingest and build, or set EVAL_DATA_DIR"
        when = advice if is_empty else " on these dates"
        remark(f"There are no sessions in {lake.root.absolute()}{when}.")
    elif len(rows) > limit:
        remark(f"{counted(len(rows) - limit, 'older one')} not shown: use --limit or --date")


def stored_sessions(lake: Lake, dates: list[date]) -> list[SessionRow]:
    """Sessions of the lake with their scores, in the order they started."""
    return session_rows(lake.read(AGENT_SESSIONS, dates), lake.read(SESSION_PERFORMANCE, dates))


def _line(row: SessionRow) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        row["session_key"],
        summary["composite"],
        summary["recommendation"],
        summary["masque"],
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["source_cli"],
        row["model"],
        row["total_tools"],
        row["tools_failed"],
    )
