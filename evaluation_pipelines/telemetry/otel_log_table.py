"""The table ``otel_logs`` in ClickHouse: what is there, minute by minute, and its rows.

Rows are found by ``Timestamp`` alone, whatever the table is sorted by; a column ``TimestampTime``,
by which the exporter partitions it, only limits what ClickHouse looks at. Some exporters write a
record without a time with ``Timestamp`` 1970: it is found by its attribute ``event.timestamp``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl

from evaluation_pipelines import times
from evaluation_pipelines.storage.clickhouse import (
    OTEL_LOGS_DSN,
    ClickHouse,
    ClickHouseError,
    ClickHouseUnavailableError,
)
from evaluation_pipelines.telemetry.domain.otel_log_rows import OtelLogRow

if TYPE_CHECKING:
    import pyarrow as pa

NS_PER_MINUTE = 60 * 10**9
NS_PER_DAY = 24 * 60 * NS_PER_MINUTE
BEGINNING_NS = -(2**62)
"""Before any row."""

_EARLIEST_NS = times.EARLIEST_US * 1000
_LAST_SECOND = 2**32 - 1  # of the type DateTime
_FIRST_DAY, _S_PER_DAY = date(1970, 1, 1), 24 * 60 * 60
_FIRST_DAY_S, _LAST_DAY_S = -(10**9), 2 * 10**10
_COLUMNS = pl.Schema({"name": pl.String(), "type": pl.String()})
_DAYS = pl.Schema({"day": pl.Int64(), "row_count": pl.Int64()})
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
class Piece:
    """Rows of consecutive minutes: from ``low_ns`` to before ``high_ns``.

    ``untimed`` are those whose ``Timestamp`` is before 2020.
    """

    low_ns: int
    high_ns: int
    row_count: int
    untimed: bool


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

    def pieces(self, low_ns: int, most_rows: int) -> list[Piece]:
        """Return all rows from a time on in pieces of whole minutes, the oldest first.

        A piece has more than ``most_rows`` only if it is a single minute.

        Raises:
            ClickHouseError: The statement failed.
        """
        pieces: list[Piece] = []
        for untimed in (True, False):
            bounds = self._bounds(low_ns, None, untimed=untimed)
            found = self.clickhouse.select("select_otel_log_minutes", _MINUTES, **bounds)
            pieces += _cut(found.iter_rows(), low_ns, most_rows, untimed=untimed)
        return sorted(pieces, key=lambda each: each.low_ns)

    def rows(self, piece: Piece) -> Iterator[OtelLogRow]:
        """Yield the rows of a piece by time, as they arrive.

        Raises:
            ClickHouseError: The statement failed, or there are fewer rows than were counted.
        """
        bounds = self._all_bounds(piece.low_ns, piece.high_ns, untimed=piece.untimed)
        rows = 0
        for block in self.clickhouse.stream("select_otel_logs", **bounds):
            rows += block.num_rows
            yield from _rows_of(block)
        if rows < piece.row_count:
            raise ClickHouseUnavailableError(
                f"{self.name} had {piece.row_count} rows and then only {rows}: its answer ended "
                "too early, or rows were deleted meanwhile. Run it again"
            )

    def days(self, first: date, last: date) -> dict[date, int]:
        """Return the number of different rows of each UTC day; reads all columns of these days.

        Raises:
            ClickHouseError: The statement failed.
        """
        found: Counter[date] = Counter()
        low_ns, high_ns = _begin_ns(first), _begin_ns(last) + NS_PER_DAY
        for untimed in (True, False):
            bounds = self._all_bounds(low_ns, high_ns, untimed=untimed)
            rows = self.clickhouse.select("select_otel_log_days", _DAYS, **bounds)
            found.update({day_of(day * NS_PER_DAY): count for day, count in rows.iter_rows()})
        return dict(found)

    def _all_bounds(self, low_ns: int, high_ns: int, *, untimed: bool) -> dict[str, Any]:
        """Return the parameters of statements about whole rows."""
        has_names = "EventName" in self.columns
        return {
            **self._bounds(low_ns, high_ns, untimed=untimed),
            "high": high_ns,
            "has_names": has_names,
            "event_name": "EventName" if has_names else "Body",
        }

    def _bounds(self, low_ns: int, high_ns: int | None, *, untimed: bool) -> dict[str, Any]:
        """Return the parameters of both statements.

        The seconds may be wider than the rows that are wanted.
        """
        first, last = 0, _EARLIEST_NS // 10**9
        if not untimed:
            low_s = max(low_ns, _EARLIEST_NS) // 10**9
            first = min(low_s, _LAST_SECOND)
            last = _LAST_SECOND if high_ns is None else min(high_ns // 10**9 + 1, _LAST_SECOND)
        return {
            "table": self.name,
            "pruned_by": "TimestampTime" if "TimestampTime" in self.columns else "Timestamp",
            "first_second": first,
            "last_second": last,
            "earliest": _EARLIEST_NS,
            "untimed": untimed,
            "low": low_ns,
        }


def _cut(
    minutes: Iterator[tuple[Any, ...]], low_ns: int, most_rows: int, *, untimed: bool
) -> Iterator[Piece]:
    """Join consecutive minutes (number and rows) up to ``most_rows``."""
    piece: Piece | None = None
    for minute, rows in minutes:
        end = (minute + 1) * NS_PER_MINUTE
        if piece is not None and piece.row_count + rows <= most_rows:
            piece = Piece(piece.low_ns, end, piece.row_count + rows, untimed)
            continue
        if piece is not None:
            yield piece
        piece = Piece(max(low_ns, minute * NS_PER_MINUTE), end, rows, untimed)
    if piece is not None:
        yield piece


def day_of(time_ns: int) -> date:
    """Return the UTC day of a time; times that no date can express are within some centuries."""
    second = min(max(time_ns // 10**9, _FIRST_DAY_S), _LAST_DAY_S)
    return date.fromordinal(_FIRST_DAY.toordinal() + second // _S_PER_DAY)


def _begin_ns(day: date) -> int:
    return (day - _FIRST_DAY).days * NS_PER_DAY


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
        return [each.decode(errors="replace") for each in as_bytes.to_pylist()]
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
