"""Commands ``status`` and ``doctor``: items that need attention, positions, dates, quarantine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer

from evaluation_pipelines.attention.domain.item import Item, Page, State
from evaluation_pipelines.attention.domain.items import attention, needing, worst
from evaluation_pipelines.attention.gather import address_of, examine, gather
from evaluation_pipelines.attention.machine import gather_without_stores
from evaluation_pipelines.cli import conventions
from evaluation_pipelines.cli.conventions import FAILED, PARTLY
from evaluation_pipelines.cli.filters import why_not_built
from evaluation_pipelines.cli.output import (
    DATA,
    OutputFormat,
    format_option,
    one_line,
    pluralize,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.formatting import age
from evaluation_pipelines.judging.ledger.score_queries import spending_line, spent_today
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import date_of
from evaluation_pipelines.storage.landing import SkippedFile, summarize_skipped
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.stored_faults import find_faults
from evaluation_pipelines.storage.stores import Stores, read_stores
from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.quarantine.entries import newest_entries
from evaluation_pipelines.telemetry.unread_files import IngestLag, ingest_lags

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
        well = [(item.area, item.seen) for item in items if item.state is State.OK]
        print_table("OK", ("area", "finding"), well, 2)
        print_line(_summary(items))
    else:
        programs = [] if facts.examined is None else map(asdict, facts.examined.arrivals)
        write_rows(map(item_record, items), form, _NAMES, state=state.value, programs=[*programs])
    raise typer.Exit(_EXIT[state])


def item_record(item: Item) -> dict[str, Any]:
    """Return an item for programs."""
    parts = [{**record_of(part), "page": _address(part.page)} for part in item.parts]
    fields = record_of(item, "is_for_all", "remedy", "command")
    return {**fields, "advice": item.advice, "page": _address(item.page), "parts": parts}


def _address(page: Page | None) -> str | None:
    return None if page is None else address_of(page)


def print_items(items: Sequence[Item]) -> None:
    """Print what needs attention: a line each, and below it what it is about and what to do."""
    for item in items:
        print_line(one_line(f"{item.state}: {item.title}"))
        for line in item.lines:
            print_line(one_line(f"  {line}"))


def _summary(items: list[Item]) -> str:
    counts = {state: sum(item.state is state for item in items) for state in State}
    parts = [f"{counts[State.FAILED]} failed", pluralize(counts[State.WARNING], "warning")]
    parts += [pluralize(counts[State.TASK], "task"), f"{counts[State.OK]} OK"]
    return f"Doctor: {', '.join(parts)}"


_MAX_DEFECTS = 10
_MAX_FILES = 100


def status(
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read every lake file and compare it with the ledger."),
    ] = False,
    form: Annotated[
        OutputFormat,
        format_option(*DATA, help_text="Output format. csv and json items are the dates."),
    ] = OutputFormat.TABLE,
) -> None:
    """Show open items, progress, built dates and judge cost.

    With --verify, exits with 1 if a lake file or a ledger row is missing or damaged.
    """
    with read_stores(load_settings()) as stores:
        now, batches = datetime.now(UTC), IngestBatches(stores.ledger)
        examined = examine(stores, now, asks=False, verifies=verify)
        items = needing(attention(gather(stores, now, examined=examined)))
        faults = find_faults(stores) if verify else []
        queue = RebuildQueue(stores.ledger).all()
        open_until = ScheduledRebuilds(stores.ledger).all()
        dates = [*_dates(stores, queue, open_until, examined.damage)]
        lags, skipped = ingest_lags(stores)
        totals, names = batches.totals(), sorted(batches.names().items())
        unread = sum(map(len, batches.without_spans().values()))
        if form is OutputFormat.TABLE:
            print_items(items)
            _print_files(stores, lags, skipped, now)
            _print_dates(stores, dates, queue, open_until)
            _print_quarantine(stores, totals)
            if unread:
                batches_left = pluralize(unread, "batch", "batches")
                print_line(
                    f"spans not read: {batches_left}. Run: evaluation-pipelines ingest --again"
                )
            for (scope, name), number in names:
                named = f"{name or 'without a name'} from {scope or 'an unnamed scope'}"
                print_line(f"not stored: {pluralize(number, 'record')} {one_line(named)}")
            print_line(f"\n{spending_line(stores.ledger, stores.settings, now)}")
            for fault in faults:
                print_line(f"the ledger is damaged: {one_line(fault)}")
            if faults:
                print_line("Restore the ledger and the lake from a backup.")
        else:
            write_rows(
                dates,
                form,
                _DATE,
                attention=[item_record(item) for item in items],
                files=[record_of(lag) for lag in lags],
                not_read=[record_of(file) for file in skipped],
                damaged=[
                    {
                        "path": path,
                        "what": "damaged" if stores.lake.store.exists(path) else "missing",
                    }
                    for path in examined.damage
                ],
                ledger_faults=faults,
                lines=totals.lines,
                quarantined=totals.quarantined,
                forgotten=totals.forgotten,
                batches_without_spans=unread,
                not_stored=[
                    {"scope": scope, "name": name, "records": number}
                    for (scope, name), number in names
                ],
                judge_spent_today_usd=spent_today(stores.ledger, now),
            )
    if verify and (examined.damage or examined.unread or faults):
        raise typer.Exit(conventions.FAILED)


_DATE = ("session_date", "state", "rows", "parts", "size_bytes", "open_until", "last_error")


def _dates(
    stores: Stores,
    queue: Sequence[QueuedDate],
    open_until: Mapping[date, datetime],
    damage: Iterable[str],
) -> Iterator[dict[str, Any]]:
    """Yield the columns _DATE of each date with landed events."""
    queued = {queued_date.session_date: queued_date for queued_date in queue}
    for part in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name):
        day, due = part.session_date, queued.get(part.session_date)
        is_damaged = any(date_of(path) == day for path in damage)
        yield {
            "session_date": day,
            "state": "damaged" if is_damaged else _state(due),
            "rows": part.rows,
            "parts": part.parts,
            "size_bytes": part.size_bytes,
            "open_until": open_until.get(day),
            "last_error": None if due is None else due.last_error,
        }


def _print_files(
    stores: Stores, lags: Sequence[IngestLag], skipped: Sequence[SkippedFile], now: datetime
) -> None:
    rows = [
        (
            *(one_line(lag.path), lag.unread_bytes, age(lag.newest_event, now)),
            *(lag.read_bytes, lag.size_bytes),
        )
        for lag in _listed(lags)
    ]
    columns = ("file", "unread bytes #", "last event #", "read bytes #", "size in bytes #")
    print_table(f"Telemetry in {stores.landing.where()}", columns, rows, essential=2)
    if len(rows) < len(lags):
        print_line(f"{pluralize(len(lags) - len(rows), 'more file')}: --format json has all")
    for names, reason in summarize_skipped(skipped):
        print_line(f"not read: {one_line(names)}: {reason}")


def _listed(lags: Sequence[IngestLag]) -> Sequence[IngestLag]:
    """Return all files; of many those with unread bytes, then the ones that were seen last."""
    if len(lags) <= _MAX_FILES:
        return lags
    read_last = sorted(lags, key=lambda lag: not lag.unread_bytes)
    unread = sum(bool(lag.unread_bytes) for lag in lags)
    newest_first = [*read_last[:unread], *reversed(read_last[unread:])]
    return newest_first[:_MAX_FILES]


def _print_dates(
    stores: Stores,
    dates: Sequence[Mapping[str, Any]],
    queue: Sequence[QueuedDate],
    open_until: Mapping[date, datetime],
) -> None:
    """Print the dates, and why some are not built; damaged files are named by their items."""
    columns = ("date", "state", "landed events #", "parts #", "bytes #")
    rows = [[record[name] for name in _DATE[:5]] for record in dates]
    print_table(f"\nDates in {stores.lake.where()}", columns, rows, essential=2)
    for due in queue:
        if due.last_error and (not due.is_built or (due.damage and due.attempts)):
            print_line(f"{due.session_date} is not built: {why_not_built(due)}")
        elif due.last_error and not due.damage:
            print_line(f"{due.session_date} was built, but: {due.last_error}")
    for session_date, time in sorted(open_until.items()):
        print_line(f"{session_date} has open sessions: built again after {time:%Y-%m-%d %H:%M} UTC")


def _state(due: QueuedDate | None) -> str:
    if due is not None and due.damage is not None:
        return "damaged"
    if due is None or due.is_built:
        return "built"
    if due.parked:
        return "parked"
    return "due" if due.next_attempt_at is None else f"retry {due.next_attempt_at:%H:%M} UTC"


def _print_quarantine(stores: Stores, totals: IngestCounts) -> None:
    """Print the last unresolved entries, replaced times and excluded events."""
    print_line(f"\nquarantine: {totals.quarantined:,} of {pluralize(totals.lines, 'line')}")
    newest, _ = newest_entries(stores, _MAX_DEFECTS)
    for entry in newest:
        lines = f" ({entry.lines:,} equal lines)" if entry.lines > 1 else ""
        reason = one_line(plain_reason(entry.reason))
        name = one_line(stores.landing.shown(entry.path))
        print_line(f"  {name}, byte {entry.offset:,}{lines}: {reason}")
    files = loaded_files(stores)
    rejected, read = (int(files[name].sum()) for name in ("rejected", "lines"))
    if rejected:
        print_line(f"  signals and evaluations: {rejected:,} of {pluralize(read, 'line')}")
    if newest or rejected:
        print_line("  all entries: evaluation-pipelines quarantine list")
    if totals.time_anomalies:
        print_line(f"replaced times: {pluralize(totals.time_anomalies, 'event')}")
        by_record = totals.time_anomalies - totals.times_observed - totals.times_of_ingest
        print_line(
            f"  by the time of the record {by_record:,}, by the observed time "
            f"{totals.times_observed:,}, by the time of ingest {totals.times_of_ingest:,}"
        )
    if totals.forgotten:
        print_line(f"{pluralize(totals.forgotten, 'erased event')} left out")
