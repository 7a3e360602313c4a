"""The table ``otel_logs`` in ClickHouse: how many rows each minute has, and its rows.

Rows are found by ``Timestamp`` alone, whatever the table is sorted by; a column ``TimestampTime``,
by which the exporter partitions it, only limits what ClickHouse looks at. Some exporters write a
record without a time with ``Timestamp`` 1970: it is found by its attribute ``event.timestamp``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
from evaluation_pipelines.telemetry.ledger.otel_log_reads import NS_PER_MINUTE

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
