"""Command ``ingest``: from the landing folder to the lake."""

from datetime import date
from typing import Annotated

import typer

from evaluation_pipelines.cli.dates import (
    DATES_TO_REREAD,
    DateRange,
    dates_in,
    parse_dates,
)
from evaluation_pipelines.cli.ingest_notes import ingest_notes
from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
    progress_bar,
)
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.landing import summarize_skipped
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
