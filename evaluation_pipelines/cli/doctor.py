"""Command ``doctor``: whether everything is well, and what to do if not."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from evaluation_pipelines.attention.domain.item import Item, Page, State
from evaluation_pipelines.attention.domain.items import attention, needing, worst
from evaluation_pipelines.attention.gather import examine, gather
from evaluation_pipelines.attention.machine import gather_without_stores
from evaluation_pipelines.attention.page_address import address_of
from evaluation_pipelines.cli.conventions import FAILED, PARTLY
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.stores import read_stores

_NAMES = ("kind", "area", "state", "seen", "advice", "page", "since")
_EXIT = {State.OK: 0, State.WARNING: PARTLY, State.FAILED: FAILED}


def doctor(
    offline: Annotated[
        bool, typer.Option("--offline", help="Skip checks of the service, Dagster and the judge.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Check the installation and suggest fixes.

    Exits with 1 if something failed, with 4 if there are only warnings.
    """
    now, settings, asks = datetime.now(UTC), load_settings(), not offline
    try:
        with read_stores(settings) as stores:
            examined = examine(stores, now, asks=asks, counts_rows=asks)
            facts = gather(stores, now, examined=examined)
    except NoLedgerError:  # nothing has arrived yet
        facts = gather_without_stores(settings, now, asks=asks)
    items = attention(facts)
    state = worst(items)
    if form is OutputFormat.TABLE:
        print_items(needing(items))
        well = [(each.area, each.seen) for each in items if each.state is State.OK]
        print_table("OK", ("area", "finding"), well, 2)
        print_line(_summary(items))
    else:
        programs = [] if facts.examined is None else map(asdict, facts.examined.arrivals)
        write_rows(map(item_record, items), form, _NAMES, state=state.value, programs=[*programs])
    raise typer.Exit(_EXIT[state])


def item_record(item: Item) -> dict[str, Any]:
    """Return an item for programs."""
    parts = [{**record_of(each), "page": _address(each.page)} for each in item.parts]
    fields = record_of(item, "is_for_all", "remedy", "command")
    return {**fields, "advice": item.advice, "page": _address(item.page), "parts": parts}


def _address(page: Page | None) -> str | None:
    return None if page is None else address_of(page)


def print_items(items: Sequence[Item]) -> None:
    """Print what needs attention: a line each, and below it what it is about and what to do."""
    for each in items:
        print_line(one_line(f"{each.state}: {each.title}"))
        for line in each.lines:
            print_line(one_line(f"  {line}"))


def _summary(items: list[Item]) -> str:
    counts = {state: sum(each.state is state for each in items) for state in State}
    parts = [f"{counts[State.FAILED]} failed", pluralize(counts[State.WARNING], "warning")]
    parts += [pluralize(counts[State.TASK], "task"), f"{counts[State.OK]} OK"]
    return f"Doctor: {', '.join(parts)}"
