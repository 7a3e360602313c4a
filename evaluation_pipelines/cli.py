"""The terminal program ``evaluation-pipelines``: the steps of the code location, by hand."""

import json
import sys
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines import overview
from evaluation_pipelines.adapters.lake import Lake, LakeError
from evaluation_pipelines.adapters.ledger.errors import LedgerError
from evaluation_pipelines.adapters.queries import QueryError
from evaluation_pipelines.demo.samples import copy_samples
from evaluation_pipelines.domain.sessions.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.settings import SettingsError, load_settings
from evaluation_pipelines.stages.build import Build, DateFailed
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines.stages.score import (
    SessionNotFoundError,
    find_session,
    open_telemetry,
    score_files,
)
from evaluation_pipelines.stages.stores import Stores, open_stores
from evaluation_pipelines.terminal import complain, progress_bar, say

app = typer.Typer(
    help="Agent telemetry in, trustworthy session scores out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_DATES = typer.Option("--date", metavar="A[..B]", help="One UTC day, or the days from A to B.")


class Format(StrEnum):
    """How scores are printed."""

    YAML = "yaml"
    JSON = "json"
    TABLE = "table"


@app.command()
def ingest() -> None:
    """Read everything new in the landing folder into the lake."""
    with open_stores(load_settings()) as stores:
        _ingest(stores)


@app.command()
def build(dates: Annotated[str | None, _DATES] = None) -> None:
    """Build events, sessions and their performance: of all dates with new telemetry, or of some."""
    with open_stores(load_settings()) as stores:
        _build(stores, None if dates is None else _date_range(dates))


@app.command()
def score(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="OTLP JSONL; - is stdin.")],
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every session, oldest first.")] = False,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.YAML,
) -> None:
    """Score telemetry straight from files; nothing is stored. Default: the newest session."""
    if every and session is not None:
        raise typer.BadParameter("--session names one session, --all means every one")
    settings = load_settings()
    with ExitStack() as stack, progress_bar(of_bytes=True) as progress:
        opened = [open_telemetry(path, sys.stdin.buffer) for path in files]
        for _, handle in opened:
            stack.enter_context(handle)
        known = [Path(path).stat().st_size for path in files if path != "-"]
        progress.begin("reading telemetry", sum(known))
        scored = score_files(opened, settings, progress)
    for name, line in scored.quarantined:
        complain(f"warning: {name}, byte {line.offset}: not read: {line.reason}")
    rows = scored.sessions if every else [find_session(scored.sessions, session)]
    if form is Format.TABLE:
        overview.print_sessions(rows)
    elif form is Format.JSON:
        say(json.dumps([session_record(row) for row in rows], indent=2))
    else:
        say("---\n".join(to_yaml(session_summary(row)) for row in rows).rstrip("\n"))


@app.command()
def sessions(
    dates: Annotated[str | None, _DATES] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, the newest.")] = 50,
) -> None:
    """List sessions of the lake with their scores, oldest first."""
    lake = Lake(load_settings().lake_dir)
    overview.print_stored_sessions(lake, None if dates is None else _date_range(dates), limit)


@app.command()
def status() -> None:
    """Show how far every file is read, what is built, and what lies in quarantine."""
    with open_stores(load_settings()) as stores:
        overview.print_status(stores.landing, stores.ledger, datetime.now(UTC))


@app.command()
def demo() -> None:
    """Run the main job on the telemetry samples of the package and show what it found."""
    with open_stores(load_settings()) as stores:
        copied = copy_samples(stores.settings.landing_dir)
        say(f"{len(copied)} files of genuine agent telemetry lie in {stores.landing.root}")
        _ingest(stores)
        _build(stores, None)
        overview.print_stored_sessions(stores.lake, None, 50)
        overview.print_best_session(stores.lake)
        overview.print_places(stores.settings)


def _ingest(stores: Stores) -> None:
    with progress_bar(of_bytes=True) as progress:
        job = Ingest(stores)
        report = job.run(progress)
    overview.print_ingest(report, stores.settings)


def _build(stores: Stores, dates: list[date] | None) -> None:
    job = Build(stores)
    with progress_bar() as progress:
        results = job.run(job.pending_dates() if dates is None else dates, progress)
    overview.print_build(results)
    if any(isinstance(result, DateFailed) for result in results):
        raise typer.Exit(1)


def _date_range(text: str) -> list[date]:
    """The days of ``A`` or ``A..B``, both ends included."""
    first, _, last = text.partition("..")
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError as error:
        advice = "Write 2026-11-21 or 2026-11-01..2026-11-21."
        raise typer.BadParameter(f"{text}: {error}. {advice}") from error
    if end < begin:
        raise typer.BadParameter(f"{text}: the range ends before it begins")
    return [begin + timedelta(days=days) for days in range((end - begin).days + 1)]


def main() -> None:
    """Run the program; errors that people can mend are told in one line."""
    try:
        app()
    except (SettingsError, LakeError, LedgerError, QueryError, SessionNotFoundError) as error:
        complain(f"error: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        complain(f"error: {error.filename or ''}: {error.strerror or error}")
        raise SystemExit(1) from None
