"""Commands ``build`` and ``publish``: from landed telemetry to tables, and to their database."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import typer

from evaluation_pipelines.build import DAILY_TABLES, Build, DateBuilt, DateFailed
from evaluation_pipelines.cli.conventions import PARTLY, of_parts
from evaluation_pipelines.cli.filters import (
    DATES_OF_FILES,
    DATES_TO_BUILD,
    DateRange,
    dates_in,
    parse_dates,
    why_not_built,
)
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.reporting.publish import refresh_published
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    TABLES,
)
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_NAMES = ("session_date", "is_built", "error", "facts", "rows")


def build(
    dates: Annotated[str | None, DATES_TO_BUILD] = None,
    allow_fallback: Annotated[
        bool,
        typer.Option(
            "--allow-fallback", help="Make placeholder scorecards if there is no judge score."
        ),
    ] = False,
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Build dates with damaged or deleted tables."),
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Build tables for dates with new telemetry.

    Exits with 4 if some dates could not be built, with 1 if none could.
    """
    date_range = parse_dates(dates)
    settings = load_settings()
    if allow_fallback:
        settings = settings.model_copy(update={"allow_fallback": True})
    with open_stores(settings) as stores:
        if damaged:
            queue_damaged(stores, date_range)
        build_tables(stores, None if damaged else date_range, form)


def queue_damaged(stores: Stores, date_range: DateRange | None) -> None:
    """Queue the dates with a daily table that is damaged or deleted, and print each table."""
    manifest, lake, dates = Manifest(stores.ledger), stores.lake, set[date]()
    for table in (daily.table for daily in DAILY_TABLES):
        for part in manifest.all_current(table.name):
            if part.session_date is None or not dates_in([part.session_date], date_range):
                continue
            try:
                lake.verify(part)
            except LakeError as error:
                print_line(one_line(str(error)))
                dates.add(part.session_date)
                if table.several_files:  # a build reads the old rows, to keep them
                    manifest.withdraw(part.part_id, datetime.now(UTC))
                    print_line(f"  {table.name} of older content and versions in it are lost")
    RebuildQueue(stores.ledger).touch(dates, datetime.now(UTC))


def build_tables(
    stores: Stores, date_range: DateRange | None, form: OutputFormat = OutputFormat.TABLE
) -> None:
    """Build with a progress bar and print the result.

    Raises:
        typer.Exit: Dates failed.
    """
    job = Build(stores, only_due=date_range is None)
    if date_range is None:
        # Dates whose sessions have other profiles, or belong to other people, are due.
        sync_profiles(stores, datetime.now(UTC))
        if fault := sync_identities(stores, datetime.now(UTC)).fault:
            print_error(f"warning: {fault}")
        dates = job.pending_dates()
    else:
        landed = Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
        dates = dates_in((part_date.session_date for part_date in landed), date_range)
        if not dates:
            print_error("error: no telemetry has landed on these dates: see status")
            raise typer.Exit(1)
    with progress_bar() as progress:
        results = job.run(dates, progress)
    if form is OutputFormat.TABLE:
        _print_built(results)
    else:
        write_rows(map(_record, results), form, _NAMES)
    _print_failed(results, RebuildQueue(stores.ledger).all())
    failed = sum(isinstance(result, DateFailed) for result in results)
    if failed:
        raise typer.Exit(of_parts(len(results) - failed, failed))


def _record(result: DateBuilt | DateFailed) -> dict[str, object]:
    """Return the outcome of a date, with the number of rows of each table."""
    if isinstance(result, DateFailed):
        values: tuple[object, ...] = (result.session_date, False, str(result), {}, {})
    else:
        values = (result.session_date, True, None, result.facts, result.rows)
    return dict(zip(_NAMES, values, strict=True))


def _print_built(results: Sequence[DateBuilt | DateFailed]) -> None:
    """Print the built dates."""
    built = [result for result in results if isinstance(result, DateBuilt)]
    if not results:
        print_line("build: nothing new")
    if built:
        columns = ("date", "landed #", "duplicates #", "events #", "sessions #", "composites #")
        rows = [
            (
                *(
                    result.session_date,
                    result.facts["landed"],
                    result.facts["duplicates"],
                ),
                *(result.rows[AGENT_EVENTS.name], result.rows[AGENT_SESSIONS.name]),
                result.facts["scored"],
            )
            for result in built
        ]
        print_table("Built", columns, rows, essential=2)


def _print_failed(results: Sequence[DateBuilt | DateFailed], queued: Iterable[QueuedDate]) -> None:
    """Print the dates that failed, and those that failed in earlier builds."""
    for failed in results:
        if isinstance(failed, DateFailed):
            print_error(f"error: {failed}")
    tried = {result.session_date for result in results}
    for due in queued:
        if due.last_error and not due.is_built and due.session_date not in tried:
            print_error(f"warning: {due.session_date} is not built: {why_not_built(due)}")


def publish(
    with_texts: Annotated[
        bool,
        typer.Option("--with-texts", help="Add prompts, replies and parameters: event_texts."),
    ] = False,
    files: Annotated[
        str | None,
        typer.Option(
            "--files",
            metavar="TABLE",
            help="Only print the current Parquet files of a table, such as session_performance.",
        ),
    ] = None,
    dates: Annotated[str | None, DATES_OF_FILES] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Publish the tables as a database for analysts.

    Exits with 4 if a table or report could not be updated: its previous version, if any, stays.
    --files publishes nothing: it prints the paths of verified files. Do not read other files in
    those folders, they may be outdated or incomplete. A replaced file stays for at least an hour.
    """
    settings, date_range = load_settings(), parse_dates(dates)
    if files is not None:
        if with_texts:
            raise typer.BadParameter("give either --with-texts or --files")
        _list_files(files, date_range, form)
        return
    if date_range is not None:
        raise typer.BadParameter("--date requires --files")
    if with_texts:
        settings = settings.model_copy(update={"publish_texts": True})
    with open_stores(settings) as stores:
        publish_database(stores, form)


def _list_files(name: str, date_range: DateRange | None, form: OutputFormat) -> None:
    tables = {table.name: table for table in TABLES}
    if name not in tables:
        known = ", ".join(sorted(tables))
        raise typer.BadParameter(f"there is no table {one_line(name)}, only: {known}")
    table = tables[name]
    with read_stores(load_settings()) as stores:
        lake = stores.lake
        days = None if date_range is None else dates_in(lake.partitions(table), date_range)
        paths = lake.files(table, days).names
    if form is not OutputFormat.TABLE:
        write_rows([{"path": path} for path in paths], form, ["path"])
        return
    for path in paths:
        print_line(path)


def publish_database(stores: Stores, form: OutputFormat = OutputFormat.TABLE) -> None:
    """Publish the analysts' database and print its tables.

    A table or report that cannot be made again is published as it was before.

    Raises:
        typer.Exit: Some could not be made; the others are published.
        AnalyticsError: The database cannot be published.
    """
    refreshed = refresh_published(stores, datetime.now(UTC))
    for name, reason in refreshed.failed.items():
        print_error(
            f"error: {name} could not be updated: {reason.rstrip('.')}. Its previous version, if "
            "any, stays published."
        )
    published = refreshed.published
    if form is OutputFormat.TABLE:
        rows = ", ".join(f"{number:,} {table}" for table, number in published.rows.items())
        print_line(f"published {published.link}: {rows}")
        for report in refreshed.reports:
            print_line(f"report {report.html}")
    else:
        tables = [{"table": name, "rows": number} for name, number in published.rows.items()]
        paths = [str(report.html) for report in refreshed.reports]
        write_rows(tables, form, database=str(published.link), reports=paths)
    if refreshed.failed:
        raise typer.Exit(PARTLY)
