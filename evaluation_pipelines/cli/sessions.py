"""Commands about sessions: score them from files, list those of the lake."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.session_lists import print_scores, print_stored_sessions
from evaluation_pipelines.cli.terminal import complain, one_line, progress_bar
from evaluation_pipelines.cli.unread import print_unread
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.stages.as_of import read_lake_as_of
from evaluation_pipelines.stages.score import (
    Scored,
    find_session,
    open_telemetry,
    score_files,
    telemetry_files,
)


class Format(StrEnum):
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
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.YAML,
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
        complain(f"{which} sessions: --all shows every one, --session another")
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
