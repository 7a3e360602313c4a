"""Commands that bring telemetry into tables: ingest, build, publish, status."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.build.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.cli.dates import DATES_TO_BUILD, Days, parse_days, within
from evaluation_pipelines.cli.output import (
    counted,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.sessions import what_is_odd
from evaluation_pipelines.cli.status import print_status, why_not_built
from evaluation_pipelines.judging.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.sessions.masque_lift import write_masque_lift
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.ledger.manifest import Manifest


def ingest() -> None:
    """Read everything new in the landing folder into the lake."""
    with open_stores(load_settings()) as stores:
        ingest_landing(stores)


def build(
    dates: Annotated[str | None, DATES_TO_BUILD] = None,
    allow_fallback: Annotated[
        bool,
        typer.Option("--allow-fallback", help="Placeholder cards where no judge has scored."),
    ] = False,
) -> None:
    """Build events, sessions and scores: of all dates with something new, or of some."""
    days = None if dates is None else parse_days(dates)
    settings = load_settings()
    if allow_fallback:
        settings = settings.model_copy(update={"allow_fallback": True})
    with open_stores(settings) as stores:
        build_tables(stores, days)


def status() -> None:
    """Show how far every file is read, what is built, and what lies in quarantine."""
    with read_stores(load_settings()) as stores:
        print_status(stores, datetime.now(UTC))


def publish() -> None:
    """Publish the tables of the lake as one database for analysts."""
    with open_stores(load_settings()) as stores:
        publish_database(stores)


def publish_database(stores: Stores) -> None:
    """Publish the analysts' database and say what it holds."""
    now = datetime.now(UTC)
    write_masque_lift(stores, now)  # no build makes these three
    write_missing_tools(stores, last_period(now))
    _, report = refresh_comparison(stores, now)
    published = publish_analytics(stores, now)
    rows = ", ".join(f"{number} {table}" for table, number in published.rows.items())
    print_line(f"published {published.link}: {rows}")
    print_line(f"report {report.html}")


def ingest_landing(stores: Stores) -> IngestReport:
    """Ingest with a progress bar, and say what was read."""
    with progress_bar(of_bytes=True) as progress:
        report = Ingest(stores).run(progress)
    print_ingest(report, stores.settings)
    return report


def build_tables(stores: Stores, days: Days | None) -> None:
    """Build with a progress bar, and say what was built; leaves with 1 where a date failed."""
    job = Build(stores)
    if days is None:
        dates = job.pending_dates()
    else:
        landed = Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
        dates = within((each.session_date for each in landed), days)
        if not dates:
            print_error("error: no telemetry has landed on these dates: see status")
            raise typer.Exit(1)
    with progress_bar() as progress:
        results = job.run(dates, progress)
    print_build(results, RebuildQueue(stores.ledger).all())
    if any(isinstance(result, DateFailed) for result in results):
        raise typer.Exit(1)


def print_ingest(report: IngestReport, settings: Settings) -> None:
    """What one ingest read; what it did not read is never left out."""
    counts = report.counts
    print_line(
        f"ingest: {counted(counts.lines, 'line')} ({counted(counts.bytes, 'byte')}) of "
        f"{counted(report.files, 'file')}, {counted(counts.events, 'event')} on "
        f"{counted(len(report.dates), 'date')}"
    )
    for what in what_is_odd(counts, settings):
        print_line(f"  {what}")
    if counts.quarantined:
        what = counted(counts.quarantined, "line or record", "lines or records")
        print_error(
            f"warning: {what} could not be read and went to quarantine: see quarantine list"
        )
    for passed in report.passed_over:
        print_error(f"warning: {one_line(passed.path)} is not read: {passed.reason}")
    for path in report.busy:
        print_error(f"warning: {one_line(path)} is being read by another ingest")


def print_build(results: Sequence[DateBuilt | DateFailed], touched: Iterable[QueuedDate]) -> None:
    """What was built, date by date, and what is still due."""
    built = [each for each in results if isinstance(each, DateBuilt)]
    if not results:
        print_line("build: nothing new")
    if built:
        columns = ("date", "landed #", "duplicates #", "events #", "sessions #", "scored #")
        rows = [
            (
                each.session_date,
                each.facts["landed"],
                each.facts["duplicates"],
                each.rows[AGENT_EVENTS.name],
                each.rows[AGENT_SESSIONS.name],
                each.facts["scored"],
            )
            for each in built
        ]
        print_table("Built", columns, rows, essential=2)
    for failed in results:
        if isinstance(failed, DateFailed):
            print_error(
                f"error: {failed.session_date}: {failed.table} was not built: {failed.error}"
            )
    tried = {each.session_date for each in results}
    for due in touched:
        if due.last_error and not due.is_built and due.session_date not in tried:
            print_error(f"warning: {due.session_date} is not built: {why_not_built(due)}")
