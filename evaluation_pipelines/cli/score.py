"""Command ``score``: scores of telemetry files, with nothing stored."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import polars as pl
import typer

from evaluation_pipelines.cli.conventions import ORGANIZATION
from evaluation_pipelines.cli.output import (
    DATA,
    OutputFormat,
    format_option,
    one_line,
    pluralize,
    print_error,
    print_line,
    progress_bar,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.session_lines import print_sessions
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.sessions.domain.ended import open_sentence
from evaluation_pipelines.sessions.domain.find_session import (
    SessionRow,
    find_session,
    in_organization,
    whole_name,
)
from evaluation_pipelines.sessions.domain.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.sessions.score import (
    ScoredTelemetry,
    files_not_read,
    open_telemetry,
    score_files,
    telemetry_files,
)
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.landing import summarize_skipped
from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_TITLES
from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason
from evaluation_pipelines.telemetry.local_transcripts import find_transcripts, local_session

_MAX_DEFECTS = 5
_MAX_OTHERS = 3


def score(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE...")] = None,
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    organization: Annotated[str | None, ORGANIZATION] = None,
    every: Annotated[bool, typer.Option("--all", help="All sessions, oldest first.")] = False,
    local: Annotated[
        bool,
        typer.Option(
            "--local", help="The latest session of an agent on this machine, or --session."
        ),
    ] = False,
    form: Annotated[OutputFormat, format_option(OutputFormat.YAML, *DATA)] = OutputFormat.YAML,
) -> None:
    """Score telemetry files without storing anything.

    Default: the latest session with a masque.
    FILE is OTLP JSONL, a folder of such files, or - for standard input.
    """
    if every and session is not None:
        raise typer.BadParameter("give either --session or --all")
    if local == bool(files):
        raise typer.BadParameter("give either telemetry files or --local")
    if local and every:
        raise typer.BadParameter("--local selects one session: remove --all")
    settings = load_settings()
    files = files or []
    scored = _score_local(settings, session) if local else _score(files, settings, session)
    if session is not None and not scored.sessions and files and "-" not in files:
        scored = _score(files, settings)  # all sessions, for the error message
    is_part = not (every or local) and (session is not None or len(scored.sessions) > 1)
    _print_unread(scored, settings, is_part=is_part)
    for names, reason in summarize_skipped([*files_not_read(files), *scored.cut]):
        print_error(f"warning: {one_line(names)}: {reason}")
    if session is not None:
        columns = dict.fromkeys((*SESSION_KEY, "session_id"), pl.String)
        windows = [[row[name] for name in columns] for row in scored.sessions]
        session = whole_name(pl.DataFrame(windows, columns, orient="row"), session)
    # With --all, too: no session is an error.
    found = find_session(scored.sessions, session, organization)
    candidates = in_organization(scored.sessions, organization)
    rows = candidates if every else [found]
    if session is None and len(candidates) > len(rows):
        newest = "latest" if found["masque"] is None else "latest with a masque"
        which = f"{one_line(found['session_key'])} is the {newest} of {len(candidates):,} sessions"
        print_error(f"{which}: use --all for all of them, --session for another one")
    _print_scores(rows, form)
    _print_open(rows, settings)


def _print_open(rows: Sequence[SessionRow], settings: Settings) -> None:
    """Say which sessions may go on: their scores are provisional."""
    limit = timedelta(minutes=settings.session_idle_minutes)
    for row in rows:
        if not row["explicit_end"] and datetime.now(UTC) - row["ended_at"] <= limit:
            until = open_sentence(row["ended_at"], settings.session_idle_minutes)
            print_error(f"{one_line(row['session_key'])} is provisional. {until}")


def _score(paths: Iterable[str], settings: Settings, session: str | None = None) -> ScoredTelemetry:
    """Score files; all of standard input is scored because it cannot be read twice."""
    with ExitStack() as stack, progress_bar(of_bytes=True) as progress:
        files, size_bytes = [], 0
        for path in telemetry_files(paths):
            _check_arrived(path, settings)
            name, handle = open_telemetry(path, sys.stdin.buffer)
            files.append((name, stack.enter_context(handle)))
            size_bytes += 0 if path == "-" else Path(path).stat().st_size
        progress.begin("reading telemetry", size_bytes)
        only = None if any(name == "-" for name, _ in files) else session
        return score_files(files, settings, progress, only)


def _score_local(settings: Settings, session: str | None) -> ScoredTelemetry:
    """Score a session with a transcript on this machine, by default the latest."""
    id_start = (session or "").partition("#")[0].rstrip("…")  # as tables shorten it
    found = local_session(settings, id_start)
    if found is None:
        for names, reason in summarize_skipped(find_transcripts()[1]):
            print_error(f"warning: not read: {one_line(names)}: {reason}")
        print_error(
            "error: no transcript of a session found on this machine. Supported agents: "
            f"{', '.join(TRANSCRIPT_TITLES)}. Run one of them, then try again."
            if session is None
            else f"error: no transcript of session {one_line(session)} found on this machine. "
            "score --local names the ids of the latest ones."
        )
        raise typer.Exit(1)
    print_error(f"transcript: {one_line(found.files[0][0])}")
    if found.others:
        ids = one_line(", ".join(found.others[:_MAX_OTHERS]))
        which = "session with a tool call" if found.has_tools else "session"
        print_error(
            f"the latest {which}. To score another one: --local --session ID, such as {ids}"
        )
    files = [(name, cast(BinaryIO, BytesIO(content))) for name, content in found.files]
    return score_files(files, settings)


def _check_arrived(path: str, settings: Settings) -> None:
    """Exit if nothing has arrived yet where the service puts what it receives."""
    received = Path(f"{settings.landing_dir}/received").absolute()
    if Path(path).absolute() == received:  # of a folder that is there, the files are given
        print_error(
            f"error: no telemetry has arrived: {one_line(path)} is not there yet. Keep make serve "
            "running, start your agent with the settings that agent-config prints, let it use a "
            "tool, and try again."
        )
        raise typer.Exit(1)


def _print_scores(rows: Sequence[SessionRow], form: OutputFormat) -> None:
    """Print scores as a table, for programs, or as one YAML document per session."""
    if form is OutputFormat.TABLE:
        print_sessions(rows)
    elif form is not OutputFormat.YAML:
        write_rows([session_record(row) for row in rows], form)
    else:
        for row in rows:
            if len(rows) > 1:
                name = one_line(f"{row['session_key']} of {row['organization_id']}")
                print_line(f"---\n# {name}")
            print_line(to_yaml(session_summary(row)).rstrip("\n"))


def _print_unread(scored: ScoredTelemetry, settings: Settings, *, is_part: bool) -> None:
    """Print what was not read; if there is no session, also what the telemetry contains.

    Changed values are counted by line: one may have other sessions than those shown (``is_part``).
    """
    shown, others = scored.quarantined[:_MAX_DEFECTS], scored.quarantined[_MAX_DEFECTS:]
    for name, line in shown:
        where = f"{one_line(name)}, byte {line.offset:,}"
        others_like_it = f" ({line.lines:,} equal lines)" if line.lines > 1 else ""
        reason = one_line(plain_reason(line.reason))
        print_error(f"warning: {where}{others_like_it}: not read: {reason}")
    if left := sum(line.lines for _, line in others):
        more = pluralize(left, "more line or record", "more lines or records")
        print_error(f"warning: {more} not read")
    of_what = scored.counts.changes if scored.sessions else scored.counts.notes
    suffix = " (of all sessions in the lines read)" if is_part else ""
    for note in of_what(settings.start_date):
        print_error(f"warning: {note}{suffix}")
