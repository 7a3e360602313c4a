"""The terminal program ``evaluation-pipelines``: the steps of the code location, by hand."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, date, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines import overview
from evaluation_pipelines.adapters.analytics import AnalyticsError
from evaluation_pipelines.adapters.lake import Lake, LakeError
from evaluation_pipelines.adapters.ledger.errors import LedgerError
from evaluation_pipelines.adapters.queries import QueryError
from evaluation_pipelines.demo.landing import EXTENT, put_telemetry
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.settings import Settings, SettingsError, load_settings
from evaluation_pipelines.stages.build import Build, DateFailed
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines.stages.publish import publish_analytics
from evaluation_pipelines.stages.score import (
    Scored,
    SessionNotFoundError,
    find_session,
    open_telemetry,
    score_files,
    telemetry_files,
)
from evaluation_pipelines.stages.stores import Stores, open_stores
from evaluation_pipelines.status import print_status
from evaluation_pipelines.terminal import (
    complain,
    never_fail_on_letters,
    one_line,
    progress_bar,
    say,
)

app = typer.Typer(
    help="Agent telemetry in, trustworthy session scores out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Days = tuple[date, date]
"""First and last day."""

_DATES = typer.Option("--date", metavar="A[..B]", help="One UTC day, or the days from A to B.")


class Format(StrEnum):
    """How scores are printed."""

    YAML = "yaml"
    JSON = "json"
    TABLE = "table"


def _print_version(wanted: bool) -> None:
    if wanted:
        say(version("evaluation-pipelines"))
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Agent telemetry in, trustworthy session scores out."""


@app.command()
def ingest() -> None:
    """Read everything new in the landing folder into the lake."""
    with open_stores(load_settings()) as stores:
        _ingest(stores)


@app.command()
def build(dates: Annotated[str | None, _DATES] = None) -> None:
    """Build events, sessions and their performance: of all dates with new telemetry, or of some."""
    days = None if dates is None else _days(dates)
    with open_stores(load_settings()) as stores:
        _build(stores, days)


@app.command()
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
    scored = _score(files, settings)
    overview.print_unread(scored, settings)
    rows = scored.sessions if every else [find_session(scored.sessions, session)]
    if session is None and len(scored.sessions) > len(rows):
        which = f"{one_line(rows[0]['session_key'])} is the newest of {len(scored.sessions)}"
        complain(f"{which} sessions: --all shows every one, --session another")
    overview.print_scores(rows, form.value)


@app.command()
def sessions(
    dates: Annotated[str | None, _DATES] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, the newest.")] = 50,
) -> None:
    """List sessions of the lake with their scores, oldest first."""
    days = None if dates is None else _days(dates)
    lake = Lake(load_settings().lake_dir)
    stored = lake.partitions(AGENT_SESSIONS)
    if stored:
        overview.print_stored_sessions(lake, _within(stored, days), limit)
    else:
        say(f"There are no sessions in {lake.root} yet. Run ingest and build, or demo.")


@app.command()
def status() -> None:
    """Show how far every file is read, what is built, and what lies in quarantine."""
    with open_stores(load_settings()) as stores:
        print_status(stores, datetime.now(UTC))


@app.command()
def publish() -> None:
    """Publish the tables of the lake as one database for analysts."""
    with open_stores(load_settings()) as stores:
        _publish(stores)


@app.command()
def demo() -> None:
    """Run the main job on genuine and on made-up telemetry, and show what it found."""
    with open_stores(load_settings()) as stores:
        with progress_bar() as progress:
            progress.begin("making up telemetry", EXTENT.days)
            today = datetime.now(UTC).date()
            say(put_telemetry(stores.landing.root, today, progress.advance))
        _ingest(stores)
        _build(stores, None)
        _publish(stores)
        overview.print_stored_sessions(stores.lake, stores.lake.partitions(AGENT_SESSIONS), 10)
        overview.print_masques(stores.lake)
        overview.print_best_session(stores.lake)
        overview.print_places(stores)


def _publish(stores: Stores) -> None:
    published = publish_analytics(stores, datetime.now(UTC))
    rows = ", ".join(f"{number} {table}" for table, number in published.rows.items())
    say(f"published {published.link}: {rows}")


def _ingest(stores: Stores) -> None:
    with progress_bar(of_bytes=True) as progress:
        report = Ingest(stores).run(progress)
    overview.print_ingest(report, stores.settings)


def _build(stores: Stores, days: _Days | None) -> None:
    job = Build(stores)
    if days is None:
        dates = job.pending_dates()
    else:
        landed = stores.ledger.parts.dates(AGENT_EVENTS_LANDED.name)
        dates = _within((each.session_date for each in landed), days)
        if not dates:
            complain("error: no telemetry has landed on these dates: see status")
            raise typer.Exit(1)
    with progress_bar() as progress:
        results = job.run(dates, progress)
    overview.print_build(results, stores.ledger.touched.all())
    if any(isinstance(result, DateFailed) for result in results):
        raise typer.Exit(1)


def _score(paths: Iterable[str], settings: Settings) -> Scored:
    with ExitStack() as stack, progress_bar(of_bytes=True) as progress:
        files, size_bytes = [], 0
        for path in telemetry_files(paths):
            name, handle = open_telemetry(path, sys.stdin.buffer)
            files.append((name, stack.enter_context(handle)))
            size_bytes += 0 if path == "-" else Path(path).stat().st_size
        progress.begin("reading telemetry", size_bytes)
        return score_files(files, settings, progress)


def _days(text: str) -> _Days:
    """First and last day of ``A`` or ``A..B``."""
    first, dots, last = text.partition("..")
    try:
        days = date.fromisoformat(first), date.fromisoformat(last if dots else first)
    except ValueError as error:
        advice = "write 2026-11-21 or 2026-11-01..2026-11-21"
        raise typer.BadParameter(f"--date {one_line(text)}: {error}; {advice}") from error
    if days[1] < days[0]:
        raise typer.BadParameter(f"--date {text}: the range ends before it begins")
    return days


def _within(dates: Iterable[date], days: _Days | None) -> list[date]:
    return [each for each in dates if days is None or days[0] <= each <= days[1]]


_MENDABLE = (
    AnalyticsError,
    LakeError,
    LedgerError,
    QueryError,
    SessionNotFoundError,
    SettingsError,
)


def main() -> None:
    """Run the program; errors that people can mend are told in one line."""
    never_fail_on_letters()
    try:
        app()
    except _MENDABLE as error:
        complain(f"error: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{one_line(str(error.filename))}: " if error.filename else ""
        complain(f"error: {where}{error.strerror or error}")
        raise SystemExit(1) from None
