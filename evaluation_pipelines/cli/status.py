"""What the terminal program prints of the state of everything."""

from datetime import datetime

import polars as pl

from evaluation_pipelines.cli.output import counted, one_line, print_line, print_table
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.quarantine.entries import all_entries, entries
from evaluation_pipelines.telemetry.unread_files import ingest_lags

_DEFECTS_SHOWN = 10
_HOURS_TO_COUNT_HOURS, _HOURS_TO_COUNT_DAYS = 2, 48


def print_status(stores: Stores, now: datetime) -> None:
    """Positions and lag of every file, what is built, what could not be read."""
    lags, passed_over = ingest_lags(stores)
    rows = [
        (
            one_line(each.path),
            each.unread_bytes,
            _age(each.newest_event, now),
            each.read_bytes,
            each.size_bytes,
        )
        for each in lags
    ]
    columns = ("file", "unread bytes #", "newest event #", "read bytes #", "size in bytes #")
    print_table(f"Telemetry in {stores.landing.root}", columns, rows, essential=2)
    for passed in passed_over:
        print_line(f"not read: {one_line(passed.path)}: {passed.reason}")
    _print_partitions(stores)
    totals = IngestBatches(stores.ledger).totals()
    print_line(f"\nquarantine: {totals.quarantined} of {counted(totals.lines, 'line')}")
    _print_quarantine(stores)
    for (sender, name), number in sorted(IngestBatches(stores.ledger).names().items()):
        what = one_line(f"{name or '(no name)'} of {sender or '(no scope)'}")
        print_line(f"not stored: {counted(number, 'record')} {what}")


def why_not_built(due: QueuedDate) -> str:
    """Why a date is not built, and what happens or is to be done next."""
    again = f"evaluation-pipelines build --date {due.session_date}"
    next_time = due.next_attempt_at
    when = "given up" if due.parked else f"due {next_time:%H:%M} UTC" if next_time else "due"
    return f"{due.last_error} ({counted(due.attempts, 'attempt')}, {when}; at once: {again})"


def _print_partitions(stores: Stores) -> None:
    touched = {each.session_date: each for each in RebuildQueue(stores.ledger).all()}
    rows = []
    for part in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name):
        due = touched.get(part.session_date)
        state = "built" if due is None or due.is_built else "given up" if due.parked else "due"
        rows.append((part.session_date, state, part.rows, part.parts, part.size_bytes))
    columns = ("date", "state", "landed events #", "parts #", "bytes #")
    print_table(f"\nDates in {stores.lake.root}", columns, rows, essential=2)
    for due in touched.values():
        if due.last_error and not due.is_built:
            print_line(f"{due.session_date} is not built: {why_not_built(due)}")


def _print_quarantine(stores: Stores) -> None:
    """What was wrong with the lines that were quarantined last, the newest first."""
    frame = all_entries(stores).filter(~pl.col("resolved"))
    newest = frame.sort("quarantined_at", "file_id", "offset", descending=[True, False, True])
    for each in entries(newest.head(_DEFECTS_SHOWN)):
        print_line(f"  {one_line(each.path)}, byte {each.offset}: {one_line(each.reason)}")
    if frame.height:
        print_line("  all of them: evaluation-pipelines quarantine list")


def _age(time: datetime | None, now: datetime) -> str | None:
    """How long ago, in the unit that reads well; rounded down."""
    if time is None:
        return None
    minutes = int((now - time).total_seconds() // 60)
    hours = minutes // 60
    if hours < _HOURS_TO_COUNT_DAYS:
        return f"{minutes} min ago" if hours < _HOURS_TO_COUNT_HOURS else f"{hours} h ago"
    return f"{hours // 24} days ago"
