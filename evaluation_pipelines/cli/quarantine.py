"""Commands ``quarantine``: list unreadable lines and records, and read them again."""

import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.cli.conventions import NOTHING, ListGroup, of_parts, refuse_unused
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record, write_rows
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.raw_lines import read_at
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores
from evaluation_pipelines.telemetry.documents import ZSTD, FileFormat, file_format
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    NoSuchEntryError,
    QuarantineEntry,
    all_entries,
    find_entry,
    find_file,
    group_entries,
    to_entries,
)
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport

app = typer.Typer(cls=ListGroup, help="List unreadable lines, and read them again.")

_LIMIT = 50
_DECOMPRESS = {FileFormat.GZIP: "gzip -dc", FileFormat.ZSTD: "zstd -dc"}


@app.command("list")
def list_entries(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[ENTRY]", help="Show this entry: position, error, first bytes."),
    ] = None,
    each_one: Annotated[
        bool, typer.Option("--entries", help="List each entry instead of files and reasons.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Maximum number of lines. Default: {_LIMIT}.")
    ] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List entries by file and reason, newest first, or show one."""
    if name is not None:
        given = {"--entries": each_one, "--limit": limit is not None}
        refuse_unused("quarantine list ENTRY", given)
        _show(name, form)
        return
    limit = limit or _LIMIT
    with read_stores(load_settings()) as stores:
        frame = all_entries(stores)
        external = loaded_files(stores)
    if form is not OutputFormat.TABLE:
        _write(frame, external, limit, form, each_one=each_one)
        return
    print_rows = _print_entries if each_one else _print_groups
    not_shown = print_rows(frame, limit)
    found = pluralize(int(frame["lines"].sum()), "entry", "entries")
    print_line(
        f"{found} of {pluralize(frame['file_id'].n_unique(), 'file')}"
        + (f", {not_shown} not shown: use --limit" if not_shown else "")
    )
    _print_external(external, limit, each_one=each_one)


_ENTRY = (
    *("entry", "path", "offset", "length_bytes", "record_index", "lines", "reason"),
    *("quarantined_at", "first_bytes"),
)
_GROUP = ("path", "entries", "reason", "newest_at", "newest_entry")


def _write(
    frame: pl.DataFrame, external: pl.DataFrame, limit: int, form: OutputFormat, *, each_one: bool
) -> None:
    """Print entries, or files and reasons, for programs; json also has signals and evaluations."""
    lines = _rejected_lines(external).head(limit).to_dicts()
    if each_one:
        newest_first = frame.sort("quarantined_at", descending=True, maintain_order=True)
        entries = [_record(entry) for entry in to_entries(newest_first.head(limit))]
        write_rows(entries, form, _ENTRY, signals_and_evaluations=lines)
        return
    groups = [
        (entry.path, entry.entries, entry.reason, entry.newest.quarantined_at, entry.newest.name)
        for entry in group_entries(frame)[:limit]
    ]
    records = [dict(zip(_GROUP, group, strict=True)) for group in groups]
    write_rows(records, form, _GROUP, signals_and_evaluations=lines)


def _record(entry: QuarantineEntry) -> dict[str, object]:
    return {"entry": entry.name, **{name: getattr(entry, name) for name in _ENTRY[1:]}}


def _rejected_lines(files: pl.DataFrame) -> pl.DataFrame:
    """Return lines of signals and evaluations that cannot be used, as of the last load."""
    rejected = files.filter(pl.col("rejected") > 0).sort("path")
    return rejected.select("path", "loaded_at", "rejects").explode("rejects").unnest("rejects")


def _print_external(files: pl.DataFrame, limit: int, *, each_one: bool) -> None:
    """Print lines of signals and evaluations that cannot be used, as of the last load."""
    rejected = files.filter(pl.col("rejected") > 0)
    if rejected.is_empty():
        return
    lines = _rejected_lines(files)
    if not each_one:
        lines = lines.group_by("path", "reason", maintain_order=True).agg(
            pl.len(), pl.col("line").first(), pl.col("loaded_at").first()
        )
    else:
        lines = lines.with_columns(len=pl.lit(1))
    rows = [
        (row["path"], row["len"], row["reason"], _time(row["loaded_at"]), row["line"])
        for row in lines.head(limit).to_dicts()
    ]
    columns = ("file", "entries #", "reason", "read (UTC)", "first line #")
    print_table("\nSignals and evaluations", columns, rows, essential=len(columns))
    print_line(
        f"{pluralize(int(rejected['rejected'].sum()), 'line')} of "
        f"{pluralize(rejected.height, 'file')}. Correct the file: it is read again when it changes"
    )


def _show(name: str, form: OutputFormat) -> None:
    """Show one entry: its position, the error, and its first bytes."""
    with read_stores(load_settings()) as stores:
        entry = find_entry(all_entries(stores), name)
        if form is not OutputFormat.TABLE:
            write_record(_record(entry), form)
            return
        for what, value in _description(stores, entry):
            print_line(f"{what:12} {one_line(value)}")


@app.command()
def retry(
    path: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="Only entries of this file.")
    ] = None,
) -> None:
    """Read entries again, for example after a fix of the program or a setting.

    Reads the part of the file that an entry came with, and replaces what was stored of it.
    Exits with 3 if there is no entry, with 4 if only some could be read.
    """
    with open_stores(load_settings()) as stores:
        wanted = None if path is None else stores.landing.relative(path)
        if wanted is not None and wanted not in all_entries(stores)["path"]:
            raise NoSuchEntryError(
                f"There are no entries of a file {wanted}: quarantine list has the files."
            )
        report = Retry(stores).run(wanted)
    _print_report(report)
    done, left = report.resolved, len(report.unresolved)
    raise typer.Exit(of_parts(done, left) if done or left else NOTHING)


def _print_groups(frame: pl.DataFrame, limit: int) -> int:
    """Print files and reasons; return the number of those not printed."""
    found = group_entries(frame)
    rows = [
        (
            group.path,
            group.entries,
            group.reason,
            _time(group.newest.quarantined_at),
            group.newest.name,
        )
        for group in found[:limit]
    ]
    columns = ("file", "entries #", "reason", "newest (UTC)", "newest entry")
    print_table("Quarantine", columns, rows, essential=len(columns))
    return len(found) - len(rows)


def _print_entries(frame: pl.DataFrame, limit: int) -> int:
    """Print entries; return the number of those not printed."""
    newest_first = frame.sort("quarantined_at", descending=True, maintain_order=True)
    rows = [
        (entry.name, entry.path, entry.lines, entry.reason, _time(entry.quarantined_at))
        for entry in to_entries(newest_first.head(limit))
    ]
    columns = ("entry", "file", "lines #", "reason", "read (UTC)")
    print_table("Quarantine", columns, rows, essential=len(columns))
    return frame.height - len(rows)


def _description(stores: Stores, entry: QuarantineEntry) -> Iterator[tuple[str, str]]:
    yield "entry", entry.name
    yield "file", stores.landing.shown(entry.path)
    yield "line", f"from byte {entry.offset}, {pluralize(entry.length_bytes, 'byte')} long"
    if entry.lines > 1:
        yield "equal lines", f"{entry.lines}, of which this is the first"
    if entry.record_index != WHOLE_LINE:
        yield (
            "record",
            f"{entry.record_index}, counted from 0. The others of the line are stored",
        )
    yield "read", f"{_time(entry.quarantined_at)} UTC"
    yield "reason", entry.reason
    yield "begins with", entry.first_bytes
    yield "print it", _print_command(stores, entry)
    path = shlex.quote(entry.path)
    yield "retry it", f"evaluation-pipelines quarantine retry --file {path}"


def _print_command(stores: Stores, entry: QuarantineEntry) -> str:
    """Return a shell command that prints the line, or why there is none."""
    file = find_file(stores, entry.file_id)
    if file is None:
        return "the file is no longer in the landing folder"
    with stores.landing.open(file) as handle:
        compression = file_format(handle)
        beginning = read_at(handle, 8, entry.offset)
    landing, cut = stores.landing, f"tail -c +{entry.offset + 1}"
    if compression is FileFormat.MESSAGES:
        size = int.from_bytes(beginning[:4])
        decode = "zstd -dc" if beginning[4:] == ZSTD else "protoc --decode_raw"
        return f"{landing.shell_input(file.path, cut)} | tail -c +5 | head -c {size} | {decode}"
    command = _DECOMPRESS.get(compression)
    lines = landing.shell_input(file.path, command or cut)
    from_offset = lines if command is None else f"{lines} | {cut}"
    return f"{from_offset} | head -c {entry.length_bytes}"


def _print_report(report: RetryReport) -> None:
    tried = report.resolved + len(report.unresolved)
    print_line(
        f"retry: {report.resolved} of {pluralize(tried, 'entry', 'entries')} could be read, "
        f"{pluralize(report.events, 'event')} on {pluralize(len(report.dates), 'date')}"
    )
    if report.dates:
        print_line("Dagster builds these dates. To build them now: evaluation-pipelines build")
    left = Counter((entry.path, reason) for entry, reason in report.unresolved)
    for (path, reason), number in left.most_common():
        entries_left = pluralize(number, "entry stays", "entries stay")
        print_error(f"warning: {one_line(path)}: {entries_left} in quarantine: {one_line(reason)}")


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
