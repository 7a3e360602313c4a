"""Command ``expire``: delete what is older than it is to be kept."""

from collections.abc import Iterator
from typing import Annotated

import typer

from evaluation_pipelines.cli.exits import of_parts
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
)
from evaluation_pipelines.cli.rows import FORMAT, Record, write_rows
from evaluation_pipelines.erasure.expire import Expire, Expiry, kept_of
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores

_ITEM = ("what", "name", "number", "first_date", "last_date")


def expire(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; change nothing.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Delete texts, events, sessions, quarantine and landing files that have expired."""
    settings = load_settings()
    kept = kept_of(settings)
    if kept == type(kept)():
        print_remark = print_line if form is OutputFormat.TABLE else print_error
        print_remark("Nothing expires: none of the settings EVAL_KEEP_..._DAYS is set.")
        result = Expiry()
    else:
        with open_stores(settings) as stores:
            result = Expire(stores, dry_run).run()
    items = list(_items(result))
    if form is not OutputFormat.TABLE:
        more = {"freed_bytes": result.freed_bytes, "oldest": result.oldest, "busy": result.busy}
        write_rows(items, form, _ITEM, **more)
    elif kept != type(kept)():
        _print(result, "would delete" if dry_run else "deleted")
    for each in result.busy:
        print_error(f"not yet: {one_line(each)}")
    raise typer.Exit(of_parts(len(items), len(result.busy)))


def _items(result: Expiry) -> Iterator[Record]:
    """Yield what was deleted, or would be: dates of each kind, rows of each table, files."""
    for kind, dates in result.dates.items():
        said = ("dates", kind, len(dates), dates[0], dates[-1])
        yield dict(zip(_ITEM, said, strict=True))
    for table, rows in result.rows.items():
        yield dict(zip(_ITEM, ("rows", table, rows, None, None), strict=True))
    for path in result.files:
        yield dict(zip(_ITEM, ("landing file", path, 1, None, None), strict=True))


def _print(result: Expiry, verb: str) -> None:
    for kind, dates in result.dates.items():
        print_line(f"{verb} {kind} of {pluralize(len(dates), 'date')}: {dates[0]} to {dates[-1]}")
    for table, rows in result.rows.items():
        print_line(f"  {table}: {pluralize(rows, 'row')}")
    for path in result.files:
        print_line(f"{verb} landing file {one_line(path)}")
    print_line(f"{result.freed_bytes} bytes")
    for kind, day in result.oldest.items():
        print_line(f"oldest {kind}: {day}")
