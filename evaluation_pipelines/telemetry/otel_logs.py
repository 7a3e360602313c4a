"""Read new rows of ``otel_logs`` in ClickHouse into landing files, every row once.

Rows are read by their time, from a while (the overlap) before the newest one that was read: they
may arrive late. Those that were read before are known by their hashes. New ones are written to a
hidden file, which is synced; then one ledger transaction moves the position; then the file gets its
name, and ingest reads it like any other. A kill before the transaction leaves a hidden file that
the next read deletes, a kill after it one that the next read names.
"""

import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from urllib.parse import urlsplit

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import (
    OTEL_LOGS_DSN,
    ClickHouseError,
    open_clickhouse,
    shown_dsn,
)
from evaluation_pipelines.storage.date_lock import step_lock
from evaluation_pipelines.storage.file_lock import LockTimeoutError
from evaluation_pipelines.storage.ledger.leases import Numbers
from evaluation_pipelines.storage.received_files import make_folder, sync_folder
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.otel_log_rows import OtelLogRow, otlp_line, row_hash
from evaluation_pipelines.telemetry.ledger.otel_log_reads import OtelLogRead, OtelLogReads
from evaluation_pipelines.telemetry.otel_log_table import (
    BEGINNING_NS,
    NS_PER_MINUTE,
    OtelLogTable,
    Piece,
    day_of,
)

FOLDER = "clickhouse"
"""Folder of the landing folder with what was read."""

PATIENCE_S = 5.0
"""Seconds to wait for a server that is down: the next ingest tries again."""

_LOCK = "otel logs"
_HIDDEN = ".reading-"
_DAYS_COMPARED = 2
_ROWS_PER_FILE = 20_000
_BYTES_PER_FILE = 64 * 1024 * 1024


@dataclass(slots=True)
class OtelLogReport:
    """Result of one read.

    Attributes:
        rows: New rows, now in the landing folder.
        known_rows: Rows like one that had been read, of the overlap or inserted twice.
        files: Landing files that were written.
        busy: True if another process reads the table; nothing was read then.
    """

    rows: int = 0
    known_rows: int = 0
    files: int = 0
    busy: bool = False


def read_otel_logs(
    stores: Stores,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    report: OtelLogReport | None = None,
    patience_s: float | None = None,
    rows_per_file: int = _ROWS_PER_FILE,
) -> OtelLogReport | None:
    """Read new rows into the landing folder; None if no table is set.

    Args:
        stores: The stores.
        clock: Returns the time: the position never exceeds it.
        report: Updated file by file, so that it has all before an error.
        patience_s: Seconds to wait for a server that is down; ``PATIENCE_S`` unless given.
        rows_per_file: Rows after which a file is committed.

    Raises:
        ClickHouseError: The table cannot be read; files committed before stay.
        OSError: A file cannot be written.
        LedgerError: The ledger cannot be used.
    """
    report = OtelLogReport() if report is None else report
    if stores.settings.otel_logs_dsn is None:
        return None
    try:
        with step_lock(stores.ledger, stores.lake.store.locks, _LOCK, 0) as leases:
            name_files(stores, delete_others=True)
            waits_s = PATIENCE_S if patience_s is None else patience_s
            with _opened(stores.settings, waits_s) as table:
                _Reader(stores, table, clock, report, leases, rows_per_file).run()
    except LockTimeoutError:
        report.busy = True
    return report


def look_at_rows(stores: Stores) -> str:
    """Return a text that changes with new rows, and with what was read.

    Raises:
        ClickHouseError: The table cannot be read.
    """
    low_ns = _low_ns(stores)
    with _opened(stores.settings, 0) as table:
        rows = sum(piece.row_count for piece in table.pieces(low_ns, _ROWS_PER_FILE))
    return f"{rows} rows from {low_ns} on"


def late_rows(stores: Stores) -> dict[date, int]:
    """Return the rows of the last days that arrived later than the overlap, and were not read.

    Only days that ended before the overlap of the last read can tell: more rows than were read.

    Raises:
        ClickHouseError: The table cannot be read.
    """
    low_ns = _low_ns(stores)
    with _opened(stores.settings, 0) as table:
        if low_ns == BEGINNING_NS:  # nothing was read
            return {}
        last = day_of(low_ns) - timedelta(days=1)
        there = table.days(last - timedelta(days=_DAYS_COMPARED - 1), last)
    read = OtelLogReads(stores.ledger).days(source_of(stores.settings))
    late = {day: rows - read.get(day, 0) for day, rows in there.items()}
    return {day: rows for day, rows in sorted(late.items()) if rows > 0}


@contextmanager
def _opened(settings: Settings, patience_s: float) -> Iterator[OtelLogTable]:
    """Open the table; errors name the server, but not the password."""
    dsn = "" if settings.otel_logs_dsn is None else settings.otel_logs_dsn.get_secret_value()
    try:
        with open_clickhouse(dsn, patience_s, named_by=OTEL_LOGS_DSN) as clickhouse:
            yield OtelLogTable.find(clickhouse, settings.otel_logs_table)
    except ClickHouseError as error:
        raise type(error)(f"otel_logs at {shown_dsn(dsn)}: {error}") from error


def _low_ns(stores: Stores) -> int:
    """Return the time from which on rows are read."""
    last = OtelLogReads(stores.ledger).last(source_of(stores.settings))
    return BEGINNING_NS if last is None else last.position_ns - _overlap_ns(stores.settings)


def _overlap_ns(settings: Settings) -> int:
    return settings.otel_logs_overlap_minutes * NS_PER_MINUTE


def name_files(stores: Stores, *, delete_others: bool = False) -> None:
    """Give committed files their names, if a kill came before that.

    With ``delete_others`` delete hidden files that were never committed.
    """
    root = stores.landing.folder
    if root is None:  # the settings refuse a table then
        return
    for path in OtelLogReads(stores.ledger).paths():  # they may be in the folder of another machine
        if (hidden := _hidden(root / path)).exists():
            _name(hidden, root / path)
    if delete_others:
        for left in (root / FOLDER).glob(f"*/*/{_HIDDEN}*"):
            left.unlink()


def source_of(settings: Settings) -> str:
    """Return the name of the table in the ledger: server, database and table, no user."""
    dsn = "" if settings.otel_logs_dsn is None else settings.otel_logs_dsn.get_secret_value()
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2].lower()
    return f"{place}/{parts.path.strip('/') or 'default'}.{settings.otel_logs_table}"


@dataclass(slots=True)
class _NewRows:
    """Rows for one file."""

    lines: list[bytes] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, row: OtelLogRow, line: bytes, identity: bytes) -> None:
        self.lines.append(line)
        self.hashes.append(identity)
        self.times_ns.append(row.time_ns)
        self.size_bytes += len(line)

    def days(self) -> Counter[date]:
        """Return the number of rows by UTC day."""
        return Counter(day_of(time_ns) for time_ns in self.times_ns)


@dataclass(slots=True)
class _Reader:
    """One read of a table by the process that holds its lock."""

    stores: Stores
    table: OtelLogTable
    clock: Callable[[], datetime]
    report: OtelLogReport
    leases: Numbers
    rows_per_file: int

    def run(self) -> None:
        """Read all pieces with rows from the overlap on."""
        last = OtelLogReads(self.stores.ledger).last(source_of(self.stores.settings))
        low_ns = _low_ns(self.stores)
        pieces = self.table.pieces(low_ns, self.rows_per_file)
        for piece, following in zip_longest(pieces, pieces[1:]):
            # Pieces with and without times overlap: nothing of the next one has been read.
            latest_ns = int(self.clock().timestamp()) * 10**9
            if following is not None:
                latest_ns = min(latest_ns, following.low_ns)
            self._read(piece, latest_ns)
        if last is not None and self.report.rows:
            self._count_again(day_of(low_ns), day_of(last.position_ns))

    def _count_again(self, first: date, end: date) -> None:
        """Count the days of the overlap once more: after a longer one some rows count twice.

        These are all of its days, since a run that was killed may have read of others.
        """
        days = [first + timedelta(days=each) for each in range((end - first).days)]
        if days:
            rows = self.table.days(days[0], days[-1])
            counts = {day: rows.get(day, 0) for day in days}
            OtelLogReads(self.stores.ledger).lower_days(source_of(self.stores.settings), counts)

    def _read(self, piece: Piece, latest_ns: int) -> None:
        """Read a piece; the position is moved to ``latest_ns`` at most.

        A clock that is ahead must not make all other rows late.
        """
        new = _NewRows()
        for row, line, identity in self._new_rows(piece):
            new.add(row, line, identity)
            if len(new.lines) >= self.rows_per_file or new.size_bytes >= _BYTES_PER_FILE:
                self._commit(new, latest_ns)
                new = _NewRows()
        if new.lines:
            self._commit(new, latest_ns)

    def _new_rows(self, piece: Piece) -> Iterator[tuple[OtelLogRow, bytes, bytes]]:
        source = source_of(self.stores.settings)
        known = OtelLogReads(self.stores.ledger).hashes(source, piece.low_ns, piece.high_ns)
        for row in self.table.rows(piece):
            line = otlp_line(row)
            identity = row_hash(line)
            if identity in known:
                self.report.known_rows += 1
                continue
            known.add(identity)
            yield row, line, identity

    def _commit(self, new: _NewRows, latest_ns: int) -> None:
        """Write a file, move the position, name the file."""
        reads, source = OtelLogReads(self.stores.ledger), source_of(self.stores.settings)
        last, now = reads.last(source), self.clock()
        number = 1 if last is None else last.number + 1
        reached_ns = min(new.times_ns[-1], latest_ns)
        position_ns = reached_ns if last is None else max(reached_ns, last.position_ns)
        root = self.stores.landing.folder
        if root is None:
            raise ValueError("a landing folder is needed")
        path = root / _path(source, number, now)
        make_folder(path.parent)
        hidden = _hidden(path)
        _write(hidden, new.lines)
        read = OtelLogRead(
            source=source,
            number=number,
            path=path.relative_to(root).as_posix(),
            position_ns=position_ns,
            first_ns=min(new.times_ns),
            last_ns=max(new.times_ns),
            row_hashes=b"".join(new.hashes),
            read_at=now,
        )
        kept_from_ns = position_ns - _overlap_ns(self.stores.settings)
        reads.commit(read, new.days(), kept_from_ns, self.leases)
        _name(hidden, path)
        self.report.rows += len(new.lines)
        self.report.files += 1


def _path(source: str, number: int, now: datetime) -> str:
    """Return a new path; random, since a ledger that was restored counts numbers again."""
    folder = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
    return f"{FOLDER}/{folder}/{now:%Y-%m-%d}/{number:09}-{uuid.uuid4().hex[:8]}.jsonl"


def _hidden(path: Path) -> Path:
    return path.with_name(f"{_HIDDEN}{path.name}")


def _write(path: Path, lines: list[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _name(hidden: Path, path: Path) -> None:
    hidden.rename(path)
    sync_folder(path.parent)
