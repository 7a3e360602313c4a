"""Commands ``ingest``, ``build`` and ``publish``: from telemetry to tables."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import typer

from evaluation_pipelines.build.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.cli.dates import (
    DATES_TO_BUILD,
    DATES_TO_REREAD,
    DateRange,
    dates_in,
    parse_dates,
)
from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.sessions import ingest_notes
from evaluation_pipelines.cli.status import why_not_built
from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.judging.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.people.sync import sync_identities
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.reporting.comparison_report import Report, refresh_comparison
from evaluation_pipelines.reporting.judge_changes_report import refresh_judge_changes
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.daily_table import ANY_ERROR
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.landing import summarize_skipped
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.reread import Reread


def ingest(
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Read landing files again for landed parts that are damaged or missing."
        ),
    ] = False,
    dates: Annotated[str | None, DATES_TO_REREAD] = None,
) -> None:
    """Read new telemetry from the landing folder into the lake."""
    date_range = parse_dates(dates)
    if date_range is not None and not again:
        raise typer.BadParameter("--date goes with --again")
    with open_stores(load_settings()) as stores:
        if again:
            reread_damaged(stores, date_range)
        else:
            ingest_landing(stores)


def build(
    dates: Annotated[str | None, DATES_TO_BUILD] = None,
    allow_fallback: Annotated[
        bool,
        typer.Option(
            "--allow-fallback", help="Make placeholder scorecards where no judge has scored."
        ),
    ] = False,
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Build the dates with tables that are damaged or deleted."),
    ] = False,
) -> None:
    """Build events, sessions and scores of all dates with new telemetry, or of some dates."""
    date_range = parse_dates(dates)
    settings = load_settings()
    if allow_fallback:
        settings = settings.model_copy(update={"allow_fallback": True})
    with open_stores(settings) as stores:
        if damaged:
            queue_damaged(stores, date_range)
        build_tables(stores, None if damaged else date_range)


def publish(
    with_texts: Annotated[
        bool,
        typer.Option("--with-texts", help="Add prompts, replies and parameters: event_texts."),
    ] = False,
) -> None:
    """Publish the tables of the lake as one database for analysts."""
    settings = load_settings()
    if with_texts:
        settings = settings.model_copy(update={"publish_texts": True})
    with open_stores(settings) as stores:
        publish_database(stores)


def ingest_landing(stores: Stores) -> IngestReport:
    """Ingest with a progress bar and print the result."""
    with progress_bar(of_bytes=True) as progress:
        report = Ingest(stores).run(progress)
    _print_ingest(report, stores.settings)
    return report


def reread_damaged(stores: Stores, date_range: DateRange | None) -> None:
    """Replace damaged landed parts and print each; exit with 1 if one could not be replaced."""

    def wanted(day: date) -> bool:
        return date_range is None or bool(dates_in([day], date_range))

    results = Reread(stores).run(wanted)
    if not results:
        print_line("ingest --again: all landed parts are as they were written")
    for each in results:
        what = f"{each.part.path}, {pluralize(each.part.row_count, 'row')}"
        if each.why_not is None:
            print_line(f"read again: {what}")
        else:
            print_error(f"error: not read again: {what}: {each.why_not}")
    if any(each.why_not for each in results):
        raise typer.Exit(1)


def queue_damaged(stores: Stores, date_range: DateRange | None) -> None:
    """Queue the dates with a daily table that is damaged or deleted, and print each table."""
    manifest, lake, dates = Manifest(stores.ledger), stores.lake, set[date]()
    for table in (each.table for each in DAILY_TABLES):
        for part in manifest.all_current(table.name):
            if part.session_date is None or not dates_in([part.session_date], date_range):
                continue
            try:
                lake.verify(part)
            except LakeError as error:
                print_line(one_line(str(error)))
                dates.add(part.session_date)
                if table.several_files:  # a build reads the old rows, to keep those of before
                    manifest.withdraw(part.part_id, datetime.now(UTC))
                    print_line(f"  {table.name} of older content and versions in it are lost")
    RebuildQueue(stores.ledger).touch(dates, datetime.now(UTC))


def build_tables(stores: Stores, date_range: DateRange | None) -> None:
    """Build with a progress bar and print the result; exit with 1 if a date failed."""
    job = Build(stores)
    if date_range is None:
        # Dates whose sessions have other profiles, or belong to other people, are due.
        sync_profiles(stores, datetime.now(UTC))
        if fault := sync_identities(stores, datetime.now(UTC)).fault:
            print_error(f"warning: {fault}")
        dates = job.pending_dates()
    else:
        landed = Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
        dates = dates_in((each.session_date for each in landed), date_range)
        if not dates:
            print_error("error: no telemetry has landed on these dates: see status")
            raise typer.Exit(1)
    with progress_bar() as progress:
        results = job.run(dates, progress)
    _print_build(results, RebuildQueue(stores.ledger).all())
    if any(isinstance(result, DateFailed) for result in results):
        raise typer.Exit(1)


def publish_database(stores: Stores) -> None:
    """Publish the analysts' database and print its tables.

    A table or report that cannot be made again is published as it was before.

    Raises:
        typer.Exit: Some could not be made; the others are published.
        AnalyticsError: The database cannot be published.
    """
    now = datetime.now(UTC)
    reports: list[Report] = []
    # The build does not write these.
    are_made = [
        _is_made("masque_lift", lambda: write_masque_lift(stores, now)),
        _is_made("missing_tools", lambda: write_missing_tools(stores, last_period(now))),
        _is_made("the changes of judges", lambda: refresh_judge_changes(stores, now)),
        _is_made(
            "the comparison of models",
            lambda: reports.append(refresh_comparison(stores, now)[1]),
        ),
    ]
    published = publish_analytics(stores, now)
    rows = ", ".join(f"{number} {table}" for table, number in published.rows.items())
    print_line(f"published {published.link}: {rows}")
    for report in reports:
        print_line(f"report {report.html}")
    if not all(are_made):
        raise typer.Exit(1)


def _is_made(name: str, make: Callable[[], object]) -> bool:
    try:
        make()
    except ANY_ERROR as error:
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        print_error(f"error: {name} could not be made, and is published as before: {reason}")
        return False
    return True


def _print_ingest(report: IngestReport, settings: Settings) -> None:
    """Print what an ingest read, and all that it did not read."""
    counts = report.counts
    print_line(
        f"ingest: {pluralize(counts.lines, 'line')} ({pluralize(counts.bytes, 'byte')}) of "
        f"{pluralize(report.files, 'file')}, {pluralize(counts.events, 'event')} on "
        f"{pluralize(len(report.dates), 'date')}"
    )
    for note in ingest_notes(counts, settings):
        print_line(f"  {note}")
    if counts.quarantined:
        what = pluralize(counts.quarantined, "line or record", "lines or records")
        print_error(
            f"warning: {what} could not be read and went to quarantine: see quarantine list"
        )
    for names, reason in summarize_skipped(report.skipped):
        print_error(f"warning: not read: {one_line(names)}: {reason}")
    for path in report.busy:
        print_error(f"warning: {one_line(path)} is being read by another ingest")


def _print_build(results: Sequence[DateBuilt | DateFailed], queued: Iterable[QueuedDate]) -> None:
    """Print the built dates, the failed ones, and those that failed in earlier builds."""
    built = [each for each in results if isinstance(each, DateBuilt)]
    if not results:
        print_line("build: nothing new")
    if built:
        columns = ("date", "landed #", "duplicates #", "events #", "sessions #", "scored #")
        rows = [
            (
                *(each.session_date, each.facts["landed"], each.facts["duplicates"]),
                *(each.rows[AGENT_EVENTS.name], each.rows[AGENT_SESSIONS.name]),
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
    for due in queued:
        if due.last_error and not due.is_built and due.session_date not in tried:
            print_error(f"warning: {due.session_date} is not built: {why_not_built(due)}")
