"""Commands about what could not be read: list it, look at it, read it again."""

import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.cli.output import counted, one_line, print_error, print_line, print_table
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores
from evaluation_pipelines.telemetry.documents import FileFormat, file_format
from evaluation_pipelines.telemetry.ledger.quarantine_retries import WHOLE_LINE
from evaluation_pipelines.telemetry.quarantine.entries import (
    QuarantineEntry,
    all_entries,
    entries,
    find_entry,
    find_file,
    groups,
)
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport

app = typer.Typer(
    help="Lines that could not be read: list them, look at them, read them again.",
    no_args_is_help=True,
)

_UNPACKED = {FileFormat.GZIP: "gzip -dc", FileFormat.ZSTD: "zstd -dc"}


@app.command("list")
def list_entries(
    each_one: Annotated[
        bool, typer.Option("--entries", help="Every entry, not files and reasons.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many lines at most.")] = 50,
) -> None:
    """List what could not be read and is not resolved, by file and reason, the newest first."""
    with read_stores(load_settings()) as stores:
        frame = all_entries(stores)
    still = frame.filter(~pl.col("resolved"))
    shown = _print_entries(still, limit) if each_one else _print_groups(still, limit)
    resolved = frame.height - still.height
    print_line(
        f"{counted(still.height, 'entry', 'entries')} of {counted(_files(still), 'file')}"
        + (f", {resolved} more could be read later" if resolved else "")
        + (f"; {shown} not shown: use --limit" if shown else "")
    )


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="ENTRY", help="Its name, see list.")]) -> None:
    """Show one entry: where it stands, what is wrong with it, and how it begins."""
    with read_stores(load_settings()) as stores:
        entry = find_entry(all_entries(stores), name)
        for what, value in _description(stores, entry):
            print_line(f"{what:12} {one_line(value)}")


@app.command()
def retry(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ENTRY]...", help="Only these; see list.")
    ] = None,
    path: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="Only those of one file.")
    ] = None,
) -> None:
    """Read entries again, after the program or a setting was mended; what is good is stored.

    Only the lines in quarantine are read, from the files in the landing folder.
    """
    with open_stores(load_settings()) as stores:
        if names:
            frame = all_entries(stores)
            wanted = {find_entry(frame, each).name for each in names}
        report = Retry(stores).run(
            lambda entry: (not names or entry.name in wanted) and path in (None, entry.path)
        )
    _print_report(report)


def _print_groups(frame: pl.DataFrame, limit: int) -> int:
    found = groups(frame)
    rows = [
        (each.path, each.entries, each.reason, _time(each.newest.quarantined_at), each.newest.name)
        for each in found[:limit]
    ]
    columns = ("file", "entries #", "reason", "newest (UTC)", "newest entry")
    print_table("Quarantine", columns, rows, essential=len(columns))
    return len(found) - len(rows)


def _print_entries(frame: pl.DataFrame, limit: int) -> int:
    newest_first = frame.sort("quarantined_at", descending=True, maintain_order=True)
    rows = [
        (each.name, each.path, each.reason, _time(each.quarantined_at))
        for each in entries(newest_first.head(limit))
    ]
    columns = ("entry", "file", "reason", "read (UTC)")
    print_table("Quarantine", columns, rows, essential=len(columns))
    return frame.height - len(rows)


def _files(frame: pl.DataFrame) -> int:
    return frame["file_id"].n_unique()


def _description(stores: Stores, entry: QuarantineEntry) -> Iterator[tuple[str, str]]:
    yield "entry", entry.name
    yield "file", entry.path
    yield "line", f"from byte {entry.offset}, {counted(entry.length_bytes, 'byte')} long"
    if entry.record_index != WHOLE_LINE:
        yield "record", f"{entry.record_index}, counted from 0; the others of the line are stored"
    yield "read", f"{_time(entry.quarantined_at)} UTC"
    yield "reason", entry.reason
    if entry.retried_at is not None:
        outcome = "could be read" if entry.resolved else "still not readable"
        yield "read again", f"{_time(entry.retried_at)} UTC: {outcome}"
    yield "begins with", entry.first_bytes
    yield "look at it", _where_to_look(stores, entry)
    if not entry.resolved:
        yield "when mended", f"evaluation-pipelines quarantine retry {shlex.quote(entry.name)}"


def _where_to_look(stores: Stores, entry: QuarantineEntry) -> str:
    """A shell command that prints the line, as far as there is one."""
    file = find_file(stores, entry.file_id)
    if file is None:
        return "the file is no longer in the landing folder"
    with stores.landing.open(file) as handle:
        form = file_format(handle)
    path = shlex.quote(str(Path(stores.landing.root) / file.path))
    cut = f"tail -c +{entry.offset + 1}"
    if form is FileFormat.ZSTD_MESSAGES:
        return f"{cut} {path} | tail -c +5 | zstd -dc"
    whole = f"{_UNPACKED[form]} {path} | {cut}" if form in _UNPACKED else f"{cut} {path}"
    return f"{whole} | head -c {entry.length_bytes}"


def _print_report(report: RetryReport) -> None:
    tried = report.resolved + len(report.left)
    print_line(
        f"retry: {report.resolved} of {counted(tried, 'entry', 'entries')} could be read, "
        f"{counted(report.events, 'event')} on {counted(len(report.dates), 'date')}"
    )
    if report.dates:
        print_line("Dagster builds these dates by itself; by hand: evaluation-pipelines build")
    left = Counter((entry.path, reason) for entry, reason in report.left)
    for (path, reason), number in left.most_common():
        what = f"{counted(number, 'entry stays', 'entries stay')} in quarantine"
        print_error(f"warning: {one_line(path)}: {what}: {one_line(reason)}")


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
