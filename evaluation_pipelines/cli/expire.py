"""Command ``expire``: delete what is older than it is to be kept."""

from typing import Annotated

import typer

from evaluation_pipelines.cli.output import one_line, pluralize, print_error, print_line
from evaluation_pipelines.erasure.expire import Expire, Expiry, kept_of
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores


def expire(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; change nothing.")
    ] = False,
) -> None:
    """Delete texts, events, sessions, quarantine and landing files that have expired."""
    settings = load_settings()
    kept = kept_of(settings)
    if kept == type(kept)():
        print_line("Nothing expires: none of the settings EVAL_KEEP_..._DAYS is set.")
        return
    with open_stores(settings) as stores:
        result = Expire(stores, dry_run).run()
    _print(result, "would delete" if dry_run else "deleted")
    for each in result.busy:
        print_error(f"not yet: {one_line(each)}")
    if result.busy:
        raise typer.Exit(1)


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
