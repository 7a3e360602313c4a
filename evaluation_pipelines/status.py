"""What the terminal program prints of the state of everything."""

from datetime import datetime

from evaluation_pipelines.adapters.ledger.records import SourceFile, TouchedDate
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED, QUARANTINE
from evaluation_pipelines.stages.stores import Stores
from evaluation_pipelines.terminal import counted, one_line, print_table, say


def print_status(stores: Stores, now: datetime) -> None:
    """Positions and lag of every file, what is built, what could not be read."""
    files, passed_over = stores.landing.list_files()
    present = {(file.device, file.inode): file for file in files}
    # Of a file that was emptied and started again the ledger knows both: only the newest is there.
    newest = {(each.device, each.inode): each for each in stores.ledger.files.all()}
    rows: list[tuple[object, ...]] = []
    for identity, source in newest.items():
        file = present.pop(identity, None)
        size = file.size_bytes if file else None
        lag = None if size is None else _unread_bytes(source, size)
        age = _age(source.last_event_time, now)
        rows.append((one_line(source.path), lag, age, source.position, size))
    rows += [(file.path, file.size_bytes, None, 0, file.size_bytes) for file in present.values()]
    columns = ("file", "unread bytes #", "newest event #", "read bytes #", "size in bytes #")
    print_table(f"Telemetry in {stores.landing.root}", columns, rows, essential=2)
    for passed in passed_over:
        say(f"not read: {one_line(passed.path)}: {passed.reason}")
    _print_partitions(stores)
    totals = stores.ledger.ingest.totals()
    place = f", see {stores.lake.root / QUARANTINE.name}" if totals.quarantined else ""
    say(f"\nquarantine: {totals.quarantined} of {counted(totals.lines, 'line')}{place}")
    for (sender, name), number in sorted(stores.ledger.ingest.names().items()):
        what = one_line(f"{name or '(no name)'} of {sender or '(no scope)'}")
        say(f"not stored: {counted(number, 'record')} {what}")


def why_not_built(due: TouchedDate) -> str:
    """Why a date is not built, and what happens or is to be done next."""
    again = f"evaluation-pipelines build --date {due.session_date}"
    next_time = due.next_attempt_at
    when = "given up" if due.parked else f"due {next_time:%H:%M} UTC" if next_time else "due"
    return f"{due.last_error} ({counted(due.attempts, 'attempt')}, {when}; at once: {again})"


def _print_partitions(stores: Stores) -> None:
    touched = {each.session_date: each for each in stores.ledger.touched.all()}
    rows = []
    for part in stores.ledger.parts.dates(AGENT_EVENTS_LANDED.name):
        due = touched.get(part.session_date)
        state = "built" if due is None or due.is_built else "given up" if due.parked else "due"
        rows.append((part.session_date, state, part.rows, part.parts, part.size_bytes))
    columns = ("date", "state", "landed events #", "parts #", "bytes #")
    print_table(f"\nDates in {stores.lake.root}", columns, rows, essential=2)
    for due in touched.values():
        if due.last_error and not due.is_built:
            say(f"{due.session_date} is not built: {why_not_built(due)}")


def _unread_bytes(source: SourceFile, size_bytes: int) -> int:
    """Bytes on disk that are still to be read; all of them for a file that began anew."""
    if source.finished_size_bytes == size_bytes:
        return 0
    return size_bytes - source.position if size_bytes >= source.position else size_bytes


def _age(time: datetime | None, now: datetime) -> str | None:
    return None if time is None else f"{int((now - time).total_seconds() // 60)} min ago"
