"""Read new rows of ``otel_logs`` in ClickHouse into landing files, every row once.

Rows are read by their time, an interval of whole minutes at a time, from a while (the overlap)
before the newest one that was read: they may arrive late. Those that were read before are known by
their hashes. New ones of an interval are written to a hidden file, which is synced; then one ledger
transaction moves the position; then the file gets its name, and ingest reads it like any other. A
kill before the transaction leaves a hidden file that the next read deletes, a kill after it one
that the next read names.

Rows are found by ``Timestamp`` alone, whatever the table is sorted by; a column ``TimestampTime``,
by which the exporter partitions it, only limits what ClickHouse looks at. Some exporters write a
record without a time with ``Timestamp`` 1970: it is found by its attribute ``event.timestamp``.
"""

import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl

from evaluation_pipelines import times
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import (
    OTEL_LOGS_DSN,
    ClickHouse,
    ClickHouseError,
    ClickHouseUnavailableError,
    open_clickhouse,
    shown_dsn,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.received_files import make_folder, sync_folder
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.otel_log_reads import (
    MINUTES_PER_DAY,
    NS_PER_MINUTE,
    OtelLogRead,
    OtelLogReads,
    OtelLogRow,
    otlp_line,
    row_hash,
)

if TYPE_CHECKING:
    import pyarrow as pa

BEGINNING = -(2**62) // NS_PER_MINUTE
"""A minute before any row."""

_EARLIEST_S = times.EARLIEST_US // 10**6
_LAST_SECOND = 2**32 - 1  # of the type DateTime
_COLUMNS = pl.Schema({"name": pl.String(), "type": pl.String()})
_MINUTES = pl.Schema({"minute": pl.Int64(), "row_count": pl.Int64()})
_EXPECTED = {
    "Timestamp": "DateTime64",
    "TraceId": "String",
    "SpanId": "String",
    "SeverityText": "String",
    "Body": "String",
    "ScopeName": "String",
    "ScopeVersion": "String",
    "ResourceAttributes": "Map",
    "LogAttributes": "Map",
}
"""Column -> type without its parameters."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Minutes since 1970 from ``first`` to before ``end``, and the rows they had."""

    first: int
    end: int
    row_count: int


def intervals(minutes: Mapping[int, int], most_rows: int) -> Iterator[Interval]:
    """Join minutes with rows to intervals, the oldest first.

    One has more than ``most_rows`` only if it is a single minute.
    """
    found: Interval | None = None
    for minute, rows in sorted(minutes.items()):
        if found is not None and found.row_count + rows <= most_rows:
            found = replace(found, end=minute + 1, row_count=found.row_count + rows)
            continue
        if found is not None:
            yield found
        found = Interval(minute, minute + 1, rows)
    if found is not None:
        yield found


@dataclass(frozen=True, slots=True)
class OtelLogTable:
    """The table ``name``; ``columns`` are its columns with their types."""

    clickhouse: ClickHouse
    name: str
    columns: Mapping[str, str]

    @classmethod
    def find(cls, clickhouse: ClickHouse, name: str) -> "OtelLogTable":
        """Look at the columns of a table.

        Raises:
            ClickHouseError: There is no such table, or it has other columns.
        """
        found = clickhouse.select("select_otel_log_columns", _COLUMNS, table=name)
        columns = dict(found.iter_rows())
        if not columns:
            raise ClickHouseError(
                f"the database has no table {name}, or its user may not read it. Check "
                f"{OTEL_LOGS_DSN} and EVAL_OTEL_LOGS_TABLE, and grant select on the table."
            )
        wrong = [
            f"{column} is {columns[column]}" if column in columns else f"{column} is missing"
            for column, kind in _EXPECTED.items()
            if kind not in columns.get(column, "")
        ]
        if wrong:
            raise ClickHouseError(
                f"the table {name} is not that of the collector's exporter with attributes of "
                f"type Map (its option json: false): {', '.join(wrong)[:300]}."
            )
        return cls(clickhouse, name, columns)

    def minutes(self, first: int) -> Counter[int]:
        """Return how many rows each minute has, from ``first`` on.

        Raises:
            ClickHouseError: The statement failed.
        """
        found: Counter[int] = Counter()
        # Apart, so that attributes are read of rows without a time alone.
        for untimed in (True, False):
            rows = self.clickhouse.select(
                "select_otel_log_minutes", _MINUTES, **self._bounds(first, None), untimed=untimed
            )
            found.update(dict(rows.iter_rows()))
        return found

    def rows(self, interval: Interval) -> Iterator[OtelLogRow]:
        """Yield the rows of an interval by time, as they arrive.

        Raises:
            ClickHouseError: The statement failed, or there are fewer rows than were counted.
        """
        has_names = "EventName" in self.columns
        rows = 0
        for block in self.clickhouse.stream(
            "select_otel_logs",
            **self._bounds(interval.first, interval.end),
            high=interval.end * NS_PER_MINUTE,
            has_names=has_names,
            event_name="EventName" if has_names else "Body",
        ):
            rows += block.num_rows
            yield from _rows_of(block)
        if rows < interval.row_count:
            raise ClickHouseUnavailableError(
                f"{self.name} had {interval.row_count} rows and then only {rows}: its answer ended "
                "too early, or rows were deleted meanwhile. Run it again"
            )

    def _bounds(self, first: int, end: int | None) -> dict[str, Any]:
        """Return the parameters of both statements; the seconds may be wider than the minutes."""
        last_s = _LAST_SECOND if end is None else end * 60
        return {
            "table": self.name,
            "pruned_by": "TimestampTime" if "TimestampTime" in self.columns else "Timestamp",
            "first_second": min(max(first * 60, _EARLIEST_S), _LAST_SECOND),
            "last_second": max(0, min(last_s, _LAST_SECOND)),
            "earliest_second": _EARLIEST_S,
            "low": first * NS_PER_MINUTE,
        }


_TEXTS = (
    *("trace_id", "span_id", "severity_text", "body"),
    *("scope_name", "scope_version", "event_name"),
)


def _rows_of(block: "pa.RecordBatch") -> Iterator[OtelLogRow]:
    times_ns = (block["time_ns"].to_pylist(), block["sent_ns"].to_pylist())
    texts = [_texts(block[name]) for name in _TEXTS]
    resources = _attributes(block, "resource")
    attributes = _attributes(block, "attribute")
    for values in zip(*times_ns, *texts, resources, attributes, strict=True):
        yield OtelLogRow(*values)


def _texts(column: Any) -> list[str]:
    """Return texts; ClickHouse stores any bytes, and sends them as texts or not."""
    as_bytes = column.cast("binary")
    try:
        found: list[str] = as_bytes.cast("string").to_pylist()
    except ValueError:  # one of them is not UTF-8
        return [value.decode(errors="replace") for value in as_bytes.to_pylist()]
    return found


def _attributes(block: "pa.RecordBatch", name: str) -> list[list[tuple[str, str]]]:
    keys, values = block[f"{name}_keys"], block[f"{name}_values"]
    flat_keys, flat_values = _texts(keys.flatten()), _texts(values.flatten())
    found, begin = list[list[tuple[str, str]]](), 0
    for length in keys.value_lengths().to_pylist():
        end = begin + length
        found.append(list(zip(flat_keys[begin:end], flat_values[begin:end], strict=True)))
        begin = end
    return found


FOLDER = "clickhouse"
"""Folder of the landing folder with what was read."""

PATIENCE_S = 5.0
"""Seconds to wait for a server that is down: the next ingest tries again."""

_HIDDEN = ".reading-"
_DAYS_COMPARED = 7
_ROWS_PER_FILE = 20_000
_FIRST_DAY = date(1970, 1, 1).toordinal()


@dataclass(slots=True)
class OtelLogReport:
    """Result of one read.

    Attributes:
        rows: New rows, now in the landing folder.
        known_rows: Rows like one that had been read, of the overlap or inserted twice.
        files: Landing files that were written.
        why_not: Why not all rows could be read.
    """

    rows: int = 0
    known_rows: int = 0
    files: int = 0
    why_not: str | None = None


def read_otel_logs(
    stores: Stores,
    hold: Hold,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    report: OtelLogReport | None = None,
    patience_s: float | None = None,
    rows_per_file: int = _ROWS_PER_FILE,
) -> OtelLogReport | None:
    """Read new rows into the landing folder; None if no table is set.

    Args:
        stores: The stores.
        hold: The lock ``ingest``.
        clock: Returns the time: the position never exceeds it.
        report: Updated file by file, so that it has all before an error.
        patience_s: Seconds to wait for a server that is down; ``PATIENCE_S`` unless given.
        rows_per_file: Rows of a file; a minute with more is one file.

    Raises:
        ClickHouseError: The table cannot be read; files committed before stay.
        OSError: A file cannot be written.
        LockLostError: Another process may ingest by now.
        LedgerError: The ledger cannot be used.
    """
    report = OtelLogReport() if report is None else report
    if stores.settings.otel_logs_dsn is None:
        return None
    name_files(stores)
    _delete_unnamed(stores, hold)
    waits_s = PATIENCE_S if patience_s is None else patience_s
    with _opened(stores.settings, waits_s) as table:
        reader = _Reader(stores, table, clock, report, hold)
        for interval in intervals(table.minutes(_first_minute(stores)), rows_per_file):
            reader.read(interval)
    return report


def look_at_rows(stores: Stores) -> str:
    """Return a text that changes with new rows, and with what was read.

    Raises:
        ClickHouseError: The table cannot be read.
    """
    first = _first_minute(stores)
    with _opened(stores.settings, 0) as table:
        return f"{table.minutes(first).total()} rows from minute {first} on"


def late_rows(stores: Stores) -> dict[date, int]:
    """Return the rows of the last days that arrived later than the overlap, and were not read.

    A row that was read and is inserted once more after the overlap counts, too.

    Raises:
        ClickHouseError: The table cannot be read.
    """
    end = _first_minute(stores)
    with _opened(stores.settings, 0) as table:
        if end == BEGINNING:  # nothing was read
            return {}
        first = (end // MINUTES_PER_DAY - _DAYS_COMPARED + 1) * MINUTES_PER_DAY
        there = table.minutes(first)
    read = OtelLogReads(stores.ledger).minutes(source_of(stores.settings))
    days = (_by_day(minutes, first, end) for minutes in (there, read))
    late = {day: rows for day, rows in Counter.__sub__(*days).items() if rows > 0}
    return {date.fromordinal(_FIRST_DAY + day): rows for day, rows in sorted(late.items())}


def _by_day(minutes: Counter[int], first: int, end: int) -> Counter[int]:
    """Return the rows of days since 1970, of the minutes from ``first`` to before ``end``."""
    found: Counter[int] = Counter()
    for minute, rows in minutes.items():
        if first <= minute < end:
            found[minute // MINUTES_PER_DAY] += rows
    return found


@contextmanager
def _opened(settings: Settings, patience_s: float) -> Iterator[OtelLogTable]:
    """Open the table; errors name the server, but not the password."""
    dsn = "" if settings.otel_logs_dsn is None else settings.otel_logs_dsn.get_secret_value()
    try:
        with open_clickhouse(dsn, patience_s, named_by=OTEL_LOGS_DSN) as clickhouse:
            yield OtelLogTable.find(clickhouse, settings.otel_logs_table)
    except ClickHouseError as error:
        raise type(error)(f"otel_logs at {shown_dsn(dsn)}: {error}") from error


def _first_minute(stores: Stores) -> int:
    """Return the minute from which on rows are read."""
    last = OtelLogReads(stores.ledger).last(source_of(stores.settings))
    return BEGINNING if last is None else _overlap_begin(stores.settings, last.position_ns)


def _overlap_begin(settings: Settings, position_ns: int) -> int:
    return position_ns // NS_PER_MINUTE - settings.otel_logs_overlap_minutes


def name_files(stores: Stores) -> None:
    """Give committed files their names, if a kill came before that."""
    root = stores.landing.folder
    if root is None:  # the settings refuse a table then
        return
    for path in OtelLogReads(stores.ledger).paths():  # they may be in the folder of another machine
        if (hidden := _hidden(root / path)).exists():
            _name(hidden, root / path)


def _delete_unnamed(stores: Stores, hold: Hold) -> None:
    """Delete hidden files that were never committed, while no other process writes any."""
    root = stores.landing.folder
    if root is not None and (left := list((root / FOLDER).glob(f"*/*/{_HIDDEN}*"))):
        hold.check()  # after they were listed: none of them is of another process
        for path in left:
            path.unlink()


def source_of(settings: Settings) -> str:
    """Return the name of the table in the ledger: server, database and table, no user."""
    dsn = "" if settings.otel_logs_dsn is None else settings.otel_logs_dsn.get_secret_value()
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2].lower()
    return f"{place}/{parts.path.strip('/') or 'default'}.{settings.otel_logs_table}"


@dataclass(slots=True)
class _Seen:
    """What an interval had: hashes and times of its new rows, and all of its rows by minute."""

    hashes: list[bytes] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    minutes: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class _Reader:
    """One read of a table by the process that holds its lock."""

    stores: Stores
    table: OtelLogTable
    clock: Callable[[], datetime]
    report: OtelLogReport
    hold: Hold

    def read(self, interval: Interval) -> None:
        """Write the new rows of an interval to a file, move the position, name the file."""
        reads, source = OtelLogReads(self.stores.ledger), source_of(self.stores.settings)
        last, now = reads.last(source), self.clock()
        number, seen = (1 if last is None else last.number + 1), _Seen()
        lines = self._new_lines(interval, seen)
        first_line = next(lines, None)
        if first_line is None:
            reads.count(source, seen.minutes, self.hold)
            return
        root = self.stores.landing.folder
        if root is None:
            raise ValueError("a landing folder is needed")
        path = root / _path(source, number, now)
        _write(_hidden(path), chain([first_line], lines))
        # Rows of a clock that is ahead must not make all others late.
        reached_ns = min(seen.times_ns[-1], int(now.timestamp()) * 10**9)
        read = OtelLogRead(
            source=source,
            number=number,
            path=path.relative_to(root).as_posix(),
            position_ns=reached_ns if last is None else max(reached_ns, last.position_ns),
            first_ns=seen.times_ns[0],
            last_ns=seen.times_ns[-1],
            row_hashes=b"".join(seen.hashes),
            read_at=now,
        )
        kept_from = _overlap_begin(self.stores.settings, read.position_ns)
        reads.commit(read, seen.minutes, kept_from * NS_PER_MINUTE, self.hold)
        _name(_hidden(path), path)
        self.report.rows += len(seen.hashes)
        self.report.files += 1

    def _new_lines(self, interval: Interval, seen: _Seen) -> Iterator[bytes]:
        """Yield the rows that were not read before as lines, by time."""
        known = OtelLogReads(self.stores.ledger).hashes(
            source_of(self.stores.settings),
            interval.first * NS_PER_MINUTE,
            interval.end * NS_PER_MINUTE,
        )
        for row in self.table.rows(interval):
            seen.minutes[row.time_ns // NS_PER_MINUTE] += 1
            line = otlp_line(row)
            identity = row_hash(line)
            if identity in known:
                self.report.known_rows += 1
                continue
            known.add(identity)
            seen.hashes.append(identity)
            seen.times_ns.append(row.time_ns)
            yield line


def _path(source: str, number: int, now: datetime) -> str:
    """Return a new path; random, since a ledger that was restored counts numbers again."""
    folder = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
    return f"{FOLDER}/{folder}/{now:%Y-%m-%d}/{number:09}-{uuid.uuid4().hex[:8]}.jsonl"


def _hidden(path: Path) -> Path:
    return path.with_name(f"{_HIDDEN}{path.name}")


def _write(path: Path, lines: Iterable[bytes]) -> None:
    make_folder(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _name(hidden: Path, path: Path) -> None:
    hidden.rename(path)
    sync_folder(path.parent)
