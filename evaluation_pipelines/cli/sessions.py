"""Rows of sessions for programs: every column of both tables, under its own name, unrounded."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.as_of import read_lake_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.output import (
    counted,
    no_formula,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.sessions.score import (
    Scored,
    SessionRow,
    find_session,
    open_telemetry,
    score_files,
    session_rows,
    telemetry_files,
)
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.domain.counts import IngestCounts

_NAMES = tuple(dict.fromkeys([*AGENT_SESSIONS.schema, *SESSION_PERFORMANCE.schema]))


def json_text(rows: Iterable[SessionRow]) -> str:
    """An array with one object a session; times are ISO 8601, ``tool_mix`` is an object."""
    return json.dumps([_record(row) for row in rows], indent=2)


def csv_text(rows: Iterable[SessionRow]) -> str:
    """A heading and one line a session; unknown is empty, lists are JSON in their cell.

    A text from telemetry that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(_NAMES)
    lines.writerows([_cell(value) for value in _record(row).values()] for row in rows)
    return written.getvalue()


def _record(row: SessionRow) -> dict[str, object]:
    return {name: _plain(name, row[name]) for name in _NAMES}


def _plain(name: str, value: object) -> object:
    """A value as JSON has it; a sum of absurd claims can be infinite, for which it has no word."""
    match value:
        case date() | datetime():
            return value.isoformat()
        case float() if not isfinite(value):
            return None
        case list() if name == "tool_mix":
            return {each["key"]: each["value"] for each in value}
    return value


def _cell(value: object) -> object:
    match value:
        case str():
            return no_formula(one_line(value))
        case bool() | list() | dict():
            return json.dumps(value)
    return value


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
        print_line(json.dumps([session_record(row) for row in rows], indent=2))
    else:
        for row in rows:
            if len(rows) > 1:
                print_line(f"---\n# {one_line(row['session_key'])}")
            print_line(to_yaml(session_summary(row)).rstrip("\n"))


def print_stored_sessions(lake: Lake, dates: list[date], limit: int, form: str) -> None:
    """The newest sessions of the lake, oldest first, as ``table``, ``json`` or ``csv``.

    What is said about the list is no part of it: beside json and csv it goes where errors go.
    """
    rows = stored_sessions(lake, dates)
    shown, remark = rows[-limit:], print_line if form == "table" else print_error
    if form == "json":
        print_line(json_text(shown))
    elif form == "csv":
        print_line(csv_text(shown).rstrip("\n"))
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


_DEFECTS_SHOWN = 5


def print_unread(scored: Scored, settings: Settings) -> None:
    """What was not read, and why there may be no session at all."""
    shown, others = scored.quarantined[:_DEFECTS_SHOWN], scored.quarantined[_DEFECTS_SHOWN:]
    for name, line in shown:
        print_error(f"warning: {one_line(name)}, byte {line.offset}: not read: {line.reason}")
    if others:
        print_error(
            f"warning: and {counted(len(others), 'more that was', 'more that were')} not read"
        )
    if not scored.sessions:
        for what in what_is_odd(scored.counts, settings):
            print_error(f"warning: {what}")


def what_is_odd(counts: IngestCounts, settings: Settings) -> Iterator[str]:
    """What of the telemetry is no event, or was mended, in numbers."""
    for what, number in (
        ("attribution lines", counts.attribution_lines),
        ("metrics and traces, not used", counts.skipped),
        ("records of agents that are not understood", counts.unknown_records),
        ("records that repeat another one", counts.repeated_records),
        ("records without a session", counts.unattributed),
        ("impossible times, replaced by the time observed", counts.time_anomalies),
        ("impossible values, now null", counts.value_anomalies),
        (f"events before {settings.start_date}, filed under that date", counts.out_of_range),
    ):
        if number:
            yield f"{what}: {number}"


class SessionFormat(StrEnum):
    """How scores are printed."""

    YAML = "yaml"
    JSON = "json"
    TABLE = "table"


class ListFormat(StrEnum):
    """How a list of sessions is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def score(
    files: Annotated[list[str], typer.Argument(metavar="FILE...")],
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every session, oldest first.")] = False,
    form: Annotated[
        SessionFormat, typer.Option("--format", help="How to print it.")
    ] = SessionFormat.YAML,
) -> None:
    """Score telemetry straight from files; nothing is stored. Default: the newest session.

    FILE is OTLP JSONL, a folder of such files, or - for standard input.
    """
    if every and session is not None:
        raise typer.BadParameter("--session names one session, --all means every one")
    settings = load_settings()
    scored = _score(files, settings, session)
    if session is not None and not scored.sessions and "-" not in files:
        scored = _score(files, settings)  # to tell what there is instead
    print_unread(scored, settings)
    found = find_session(scored.sessions, session)  # also for all: none at all is an error
    rows = scored.sessions if every else [found]
    if session is None and len(scored.sessions) > len(rows):
        which = f"{one_line(rows[0]['session_key'])} is the newest of {len(scored.sessions)}"
        print_error(f"{which} sessions: --all shows every one, --session another")
    print_scores(rows, form.value)


def sessions(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, the newest.")] = 50,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        ListFormat, typer.Option("--format", help="json and csv have every column, unrounded.")
    ] = ListFormat.TABLE,
) -> None:
    """List sessions of the lake with their scores, oldest first."""
    days = None if dates is None else parse_days(dates)
    with read_lake_as_of(load_settings(), parse_as_of(as_of)) as lake:
        dates_stored = lake.partitions(AGENT_SESSIONS)
        print_stored_sessions(lake, within(dates_stored, days), limit, form.value)


def _score(paths: Iterable[str], settings: Settings, session: str | None = None) -> Scored:
    """Score some files; of standard input, which cannot be read twice, always all of it."""
    with ExitStack() as stack, progress_bar(of_bytes=True) as progress:
        files, size_bytes = [], 0
        for path in telemetry_files(paths):
            name, handle = open_telemetry(path, sys.stdin.buffer)
            files.append((name, stack.enter_context(handle)))
            size_bytes += 0 if path == "-" else Path(path).stat().st_size
        progress.begin("reading telemetry", size_bytes)
        only = None if any(name == "-" for name, _ in files) else session
        return score_files(files, settings, progress, only)
