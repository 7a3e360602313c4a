"""Command ``ingest``: from the landing folder to the lake."""

from datetime import date
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import PARTLY, of_parts
from evaluation_pipelines.cli.filters import (
    DATES_TO_REREAD,
    DateRange,
    dates_in,
    parse_dates,
)
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
    progress_bar,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_record, write_rows
from evaluation_pipelines.formatting import size
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.landing import summarize_skipped
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_TITLES
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.otel_logs import OtelLogReport
from evaluation_pipelines.telemetry.prices import read_own_prices
from evaluation_pipelines.telemetry.quarantine.retry import Retry
from evaluation_pipelines.telemetry.reread import Reread
from evaluation_pipelines.telemetry.transcript_ingest import TranscriptReport

_REREAD = ("path", "rows", "why_not")


def ingest(
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Read landing files again for damaged or missing parts, and for spans that an "
            "earlier version left out.",
        ),
    ] = False,
    local: Annotated[
        bool,
        typer.Option("--local", help="Also read the transcripts of agents on this machine."),
    ] = False,
    dates: Annotated[str | None, DATES_TO_REREAD] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Read new telemetry from the landing folder.

    With EVAL_OTEL_LOGS_DSN, new rows of ClickHouse are written to the landing folder first. Exits
    with 4 if they could not be read, or if another process held the lock too long. Nothing is read
    then, and ``busy`` in the JSON names that process.
    """
    date_range = parse_dates(dates)
    if local and again:
        raise typer.BadParameter("--local reads new lines of transcripts: use it without --again")
    if date_range is not None and not again:
        raise typer.BadParameter("--date goes with --again")
    with open_stores(load_settings()) as stores:
        if again:
            reread_damaged(stores, date_range, form)
        else:
            ingest_landing(stores, form, with_otel_logs=True, with_transcripts=local)


def ingest_landing(
    stores: Stores,
    form: OutputFormat = OutputFormat.TABLE,
    *,
    with_otel_logs: bool = False,
    with_transcripts: bool = False,
) -> IngestReport:
    """Ingest with a progress bar and print the result; exit with 4 if not all could be read."""
    for fault in read_own_prices(stores.settings.prices_path).faults:
        print_error(f"warning: {one_line(fault)}")
    with progress_bar(of_bytes=True) as progress:
        ingest = Ingest(stores, with_otel_logs=with_otel_logs, with_transcripts=with_transcripts)
        report = ingest.run(progress)
    if form is not OutputFormat.TABLE:
        write_record(_record(report), form)
    elif report.busy is None:
        _print_rows(report.otel_logs)
        _print_transcripts(report.transcripts)
        _print_ingest(report, stores.settings)
    _print_not_read(report)
    if (why_not := _why_not_all(report)) is not None:
        print_error(f"error: {one_line(why_not)}")
        raise typer.Exit(PARTLY)
    if with_transcripts and form is OutputFormat.TABLE:
        print_line("next: evaluation-pipelines build")
    return report


def _why_not_all(report: IngestReport) -> str | None:
    if report.busy is not None:
        return f"nothing was read: {report.busy}"
    return None if report.otel_logs is None else report.otel_logs.why_not


def reread_damaged(stores: Stores, date_range: DateRange | None, form: OutputFormat) -> None:
    """Replace damaged landed parts and print each; exit with 1 if none could be replaced.

    If only some could be, exit with 4.
    """

    def wanted(day: date) -> bool:
        return date_range is None or bool(dates_in([day], date_range))

    spans = Retry(stores).read_spans()
    if spans.events and form is OutputFormat.TABLE:
        dates, events = pluralize(len(spans.dates), "date"), pluralize(spans.events, "event")
        print_line(f"read again: {events} from spans that an earlier version left out, on {dates}")
    for path, why_not in spans.unread.items():
        print_error(f"error: spans not read: {one_line(path)}: {why_not}")
    results = Reread(stores).run(wanted)
    if form is not OutputFormat.TABLE:
        rows = [(part.part.path, part.part.row_count, part.why_not) for part in results]
        write_rows([dict(zip(_REREAD, row, strict=True)) for row in rows], form, _REREAD)
    elif not results:
        print_line("ingest --again: all landed parts are as they were written")
    for result in results:
        what = f"{result.part.path}, {pluralize(result.part.row_count, 'row')}"
        if result.why_not is not None:
            print_error(f"error: not read again: {what}: {result.why_not}")
        elif form is OutputFormat.TABLE:
            print_line(f"read again: {what}")
    missing = sum(part.why_not is not None for part in results)
    raise typer.Exit(of_parts(len(results) - missing, missing + len(spans.unread)))


def _record(report: IngestReport) -> dict[str, object]:
    rows, transcripts = report.otel_logs, report.transcripts
    return {
        **({} if rows is None else {"otel_logs": record_of(rows)}),
        **({} if transcripts is None else {"transcripts": _transcripts(transcripts)}),
        "files": report.files,
        **record_of(report.counts),
        "dates": sorted(report.dates),
        "not_read": [record_of(file) for file in report.skipped],
        "busy": report.busy,
    }


def _transcripts(transcripts: TranscriptReport) -> dict[str, object]:
    unknown = [
        {"program": program, "kind": kind, "lines": number}
        for (program, kind), number in transcripts.unknown.most_common()
    ]
    return {"files": transcripts.files, "lines": transcripts.lines, "unknown": unknown}


def _print_rows(rows: OtelLogReport | None) -> None:
    """Print what was read from ClickHouse."""
    if rows is not None:
        new = pluralize(rows.rows, "new row")
        print_line(f"otel_logs: {new}, {rows.known_rows:,} of the overlap read before")


def _print_transcripts(transcripts: TranscriptReport | None) -> None:
    """Print the new lines of transcripts, and their unknown kinds."""
    if transcripts is not None:
        lines = pluralize(transcripts.lines, "new line")
        files = pluralize(transcripts.files, "transcript")
        print_line(f"transcripts: {lines} of {files} copied to the landing folder")
        if not transcripts.found:
            agents = ", ".join(TRANSCRIPT_TITLES)
            print_line(f"  no transcript of a session found on this machine. Supported: {agents}")
        for (program, kind), number in transcripts.unknown.most_common():
            print_line(f"  {pluralize(number, 'line')} of unknown kind: {program} {one_line(kind)}")


def _print_ingest(report: IngestReport, settings: Settings) -> None:
    """Print what an ingest read."""
    counts = report.counts
    print_line(
        f"ingest: {pluralize(counts.lines, 'line')} ({size(counts.bytes)}) of "
        f"{pluralize(report.files, 'file')}, {pluralize(counts.events, 'event')} on "
        f"{pluralize(len(report.dates), 'date')}"
    )
    for note in counts.notes(settings.start_date):
        print_line(f"  {note}")


def _print_not_read(report: IngestReport) -> None:
    """Print what an ingest found and did not read."""
    if report.counts.quarantined:
        what = pluralize(report.counts.quarantined, "line or record", "lines or records")
        print_error(
            f"warning: {what} could not be read and went to quarantine: see quarantine list"
        )
    of_transcripts = report.transcripts.skipped if report.transcripts else []
    for names, reason in summarize_skipped([*of_transcripts, *report.skipped]):
        print_error(f"warning: not read: {one_line(names)}: {reason}")
