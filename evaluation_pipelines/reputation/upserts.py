"""Rows of ClickHouse that count once per id.

ClickHouse identifies a row by the columns that its table is sorted by: a newer revision with the
same columns replaces the older one. A row that moves (another time, another identity) would stay
at its old place, so its writer marks it deleted there. If two writers move a row at the same time,
the newer revision stays.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, Table
from evaluation_pipelines.storage.clickhouse import ClickHouse

# A server takes 128 KiB a parameter. Letters that it has to escape count fourfold.
_PARAMETER_BYTES = 100_000
_PLACES = {
    REPUTATION_EVENTS.name: ("identity_id", "timestamp", "event_id"),
    AGENT_EVALUATIONS.name: ("organization_id", "agent_id", "evaluated_at", "evaluation_id"),
}


@dataclass(frozen=True, slots=True)
class UpsertCounts:
    """Rows that were new or different, unchanged rows, and outdated rows."""

    written: int = 0
    unchanged: int = 0
    retired: int = 0

    def __add__(self, other: "UpsertCounts") -> "UpsertCounts":
        """Add both."""
        return UpsertCounts(
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.retired + other.retired,
        )


def upsert(clickhouse: ClickHouse, table: Table, rows: pl.DataFrame, revision: int) -> UpsertCounts:
    """Insert or replace rows by id; of one id, the row with the highest revision counts.

    Args:
        clickhouse: The connection.
        table: One of the two tables.
        rows: Any number, one per id.
        revision: Grows with time: of two writers, the larger number wins.

    Raises:
        ClickHouseError: a write was rejected; repeating it completes it.
    """
    rows, done, start = _as_stored(rows), UpsertCounts(), 0
    for ids in _chunks(rows[_id(table)].to_list()):
        done += _upsert(clickhouse, table, rows.slice(start, len(ids)), ids, revision)
        start += len(ids)
    return done


def retire(clickhouse: ClickHouse, table: Table, ids: Collection[str], revision: int) -> int:
    """Withdraw rows by their ids, except newer ones; return how many were live.

    Raises:
        ClickHouseError: a write was rejected; repeating it completes it.
    """
    stored = live_rows(clickhouse, table, ids).filter(pl.col("revision") <= revision)
    _mark_deleted(clickhouse, table, stored, revision)
    return stored.height


def live_rows(clickhouse: ClickHouse, table: Table, ids: Collection[str]) -> pl.DataFrame:
    """Return the rows that count for these ids, with their ``revision``.

    An id has several rows while a writer moves its row.

    Raises:
        ClickHouseError: the query failed.
    """
    frames = [_stored(clickhouse, table, chunk) for chunk in _chunks(sorted(ids))]
    return pl.concat([_stored_schema(table).to_frame(), *frames])


def _upsert(
    clickhouse: ClickHouse, table: Table, rows: pl.DataFrame, ids: Sequence[str], revision: int
) -> UpsertCounts:
    stored = _stored(clickhouse, table, ids)
    # Of several for one id none is sure to be the one that stays: it is written anew.
    settled = stored.filter(pl.len().over(_id(table)) == 1).select(rows.columns)
    new = rows.join(settled, on=rows.columns, how="anti", nulls_equal=True)
    if new.is_empty():
        return UpsertCounts(unchanged=rows.height)
    written = new.with_columns(
        revision=pl.lit(revision, dtype=pl.UInt64), is_deleted=pl.lit(0, dtype=pl.UInt8)
    )
    clickhouse.insert(table.name, written)
    # Looked up after writing, so that of two writers at least the later one sees both rows.
    live = _stored(clickhouse, table, new[_id(table)].to_list())
    newest_last = live.sort("revision", *_PLACES[table.name])
    outdated = newest_last.filter(pl.int_range(pl.len()).over(_id(table)) < _others(table))
    _mark_deleted(clickhouse, table, outdated, revision)
    return UpsertCounts(new.height, rows.height - new.height, outdated.height)


def _others(table: Table) -> pl.Expr:
    """Return the number of live rows of an id in addition to its newest."""
    return pl.len().over(_id(table)) - 1


def _stored(clickhouse: ClickHouse, table: Table, ids: Sequence[str]) -> pl.DataFrame:
    """Return live rows of these ids with their ``revision``."""
    return clickhouse.select(f"select_stored_{table.name}", _stored_schema(table), ids=ids)


def _stored_schema(table: Table) -> pl.Schema:
    return pl.Schema([*table.schema.items(), ("revision", pl.Int64())])


def _mark_deleted(clickhouse: ClickHouse, table: Table, rows: pl.DataFrame, revision: int) -> None:
    """Replace rows at their places; a newer revision written in between stays."""
    newer = pl.max_horizontal(pl.col("revision") + 1, pl.lit(revision))
    gone = rows.select(
        *_PLACES[table.name],
        revision=newer.cast(pl.UInt64),
        is_deleted=pl.lit(1, dtype=pl.UInt8),
    )
    clickhouse.insert(table.name, gone)


def _id(table: Table) -> str:
    return table.key[0]


def _as_stored(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the precision of ClickHouse, so that they equal stored ones."""
    single = [name for name in ("score_delta", "confidence") if name in rows.columns]
    return rows.with_columns(pl.col(single).cast(pl.Float32).cast(pl.Float64))


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many ids at a time as a parameter can hold."""
    start, size = 0, 0
    for end, each in enumerate(ids):
        cost = len(each.encode()) + 3 * sum(not letter.isalnum() for letter in each) + 3
        if size + cost > _PARAMETER_BYTES:
            yield ids[start:end]
            start, size = end, 0
        size += cost
    if start < len(ids):
        yield ids[start:]
