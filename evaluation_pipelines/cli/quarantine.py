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
from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    NoSuchEntryError,
    QuarantineEntry,
    QuarantineGroup,
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
    by_entry: Annotated[
        bool, typer.Option("--entries", help="List each entry instead of files and reasons.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Maximum number of lines. Default: {_LIMIT}.")
    ] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List entries by file and reason, latest first, or show one."""
    if name is not None:
        given = {"--entries": by_entry, "--limit": limit is not None}
        refuse_unused("quarantine list ENTRY", given)
        _show(name, form)
        return
    limit = limit or _LIMIT
    with read_stores(load_settings()) as stores:
        frame = all_entries(stores)
        external = loaded_files(stores)
    groups = [] if by_entry else group_entries(frame)
    records = _entry_records(frame, limit) if by_entry else list(map(_group_record, groups[:limit]))
    if form is not OutputFormat.TABLE:
        lines = _rejected_lines(external).head(limit).to_dicts()
        columns = _ENTRY if by_entry else _GROUP
        write_rows(records, form, columns, signals_and_evaluations=lines)
        return
    titles = _ENTRY_TITLES if by_entry else _GROUP_TITLES
    rows = [[_cell(name, record[name]) for name in titles] for record in records]
    print_table("Quarantine", tuple(titles.values()), rows, essential=len(titles))
    found = pluralize(int(frame["lines"].sum()), "entry", "entries")
    not_shown = (frame.height if by_entry else len(groups)) - len(rows)
    print_line(
        f"{found} of {pluralize(frame['file_id'].n_unique(), 'file')}"
        + (f", {not_shown:,} not shown: use --limit" if not_shown else "")
    )
    _print_external(external, limit, by_entry=by_entry)


_ENTRY = (
    *("entry", "path", "offset", "length_bytes", "record_index", "lines", "reason"),
    *("quarantined_at", "first_bytes"),
)
_GROUP = ("path", "entries", "reason", "newest_at", "newest_entry")
_ENTRY_TITLES = {
    "entry": "entry",
    "path": "file",
    "lines": "lines #",
    "reason": "reason",
    "quarantined_at": "read (UTC)",
}
_GROUP_TITLES = {
    "path": "file",
    "entries": "entries #",
    "reason": "reason",
    "newest_at": "latest (UTC)",
    "newest_entry": "latest entry",
}


def _entry_records(frame: pl.DataFrame, limit: int) -> list[dict[str, object]]:
    newest_first = frame.sort("quarantined_at", descending=True, maintain_order=True)
    return [_record(entry) for entry in to_entries(newest_first.head(limit))]


def _record(entry: QuarantineEntry) -> dict[str, object]:
    return {"entry": entry.name, **{name: getattr(entry, name) for name in _ENTRY[1:]}}


def _group_record(group: QuarantineGroup) -> dict[str, object]:
    return {
        "path": group.path,
        "entries": group.entries,
        "reason": group.reason,
        "newest_at": group.newest.quarantined_at,
        "newest_entry": group.newest.name,
    }


def _cell(name: str, value: object) -> object:
    if name == "reason":
        return plain_reason(f"{value}")
    return _time(value) if isinstance(value, datetime) else value


def _rejected_lines(files: pl.DataFrame) -> pl.DataFrame:
    """Return lines of signals and evaluations that cannot be used, as of the last load."""
    rejected = files.filter(pl.col("rejected") > 0).sort("path")
    return rejected.select("path", "loaded_at", "rejects").explode("rejects").unnest("rejects")


def _print_external(files: pl.DataFrame, limit: int, *, by_entry: bool) -> None:
    """Print lines of signals and evaluations that cannot be used, as of the last load."""
    rejected = files.filter(pl.col("rejected") > 0)
    if rejected.is_empty():
        return
    lines = _rejected_lines(files)
    if not by_entry:
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
    """Read entries again, for example after an upgrade or a changed setting.

    Reads the part of the file that an entry came with, and replaces what was stored of it.
    Exits with 3 if there is no entry, with 4 if only some could be read.
    """
    with open_stores(load_settings()) as stores:
        wanted = None if path is None else stores.landing.relative(path)
        if wanted is not None and wanted not in all_entries(stores)["path"]:
            raise NoSuchEntryError(
                f"No entries of the file {wanted}: quarantine list has the files."
            )
        report = Retry(stores).run(wanted)
    _print_report(report)
    done, left = report.resolved, len(report.unresolved)
    raise typer.Exit(of_parts(done, left) if done or left else NOTHING)


def _description(stores: Stores, entry: QuarantineEntry) -> Iterator[tuple[str, str]]:
    yield "entry", entry.name
    yield "file", stores.landing.shown(entry.path)
    yield "line", f"from byte {entry.offset:,}, {pluralize(entry.length_bytes, 'byte')} long"
    if entry.lines > 1:
        yield "equal lines", f"{entry.lines:,}, of which this is the first"
    if entry.record_index != WHOLE_LINE:
        yield (
            "record",
            f"{entry.record_index}, counted from 0. The others of the line are stored",
        )
    yield "read", f"{_time(entry.quarantined_at)} UTC"
    yield "reason", plain_reason(entry.reason)
    yield "starts with", entry.first_bytes
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
        f"retry: {report.resolved:,} of {pluralize(tried, 'entry', 'entries')} could be read, "
        f"{pluralize(report.events, 'event')} on {pluralize(len(report.dates), 'date')}"
    )
    if report.dates:
        print_line("Dagster builds these dates. To build them now: evaluation-pipelines build")
    left = Counter((entry.path, plain_reason(reason)) for entry, reason in report.unresolved)
    for (path, reason), number in left.most_common():
        entries_left = pluralize(number, "entry stays", "entries stay")
        print_error(f"warning: {one_line(path)}: {entries_left} in quarantine: {one_line(reason)}")


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
