"""Write tables of an analysts' database to ClickHouse: what changed, a date at a time, whole.

Rows go to a staging table first, which no reader knows. A date is then replaced by one statement,
a table without dates by one exchange. A kill leaves staging tables, which the next run drops.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain

import duckdb
import polars as pl
import pyarrow as pa

from evaluation_pipelines.reporting.domain.served_table import (
    STAMP,
    STAMP_IN,
    ServedTable,
    StoredDate,
    create_statement,
    due_dates,
    identifier,
    is_whole,
    select_list,
    stamp_of,
)
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError
from evaluation_pipelines.storage.dropped_tables import delete_dropped_files

STAGING = "_serving"
"""Begins the name of each table that readers do not know."""
_KEPT, _NEW, _DATES = f"{STAGING}_kept", f"{STAGING}_new", f"{STAGING}_dates"
_STAGED = _KEPT, _NEW, _DATES

_ROWS_PER_INSERT = 50_000
_DATES_PER_LOAD = 32
_COLUMNS = pl.Schema(dict.fromkeys(("table", "name", "type", "default_kind"), pl.String()))
_WHOLE = pl.Schema({"first_stamp": pl.String(), "last_stamp": pl.String(), "row_count": pl.Int64()})
_OF_DATES = pl.Schema({"session_date": pl.Date(), **_WHOLE})


def serve_tables(
    clickhouse: ClickHouse,
    database: duckdb.DuckDBPyConnection,
    tables: Sequence[ServedTable],
    check_lease: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Bring the tables of ClickHouse to the state of ``tables``; return the rows sent of each.

    Tables that were served before and are not among them are dropped. ``check_lease`` is called
    before each table and each date that is replaced.

    Raises:
        StaleLeaseError: Another process publishes; it sends what is missing.
        ClickHouseError: ClickHouse cannot be used, or the database has tables of others.
        duckdb.Error: A table cannot be read.
    """
    check_lease()
    there = _served(clickhouse, [each.name for each in tables])
    for name in there.keys() - {each.name for each in tables}:
        _drop(clickhouse, name)
    served = {}
    for each in tables:
        check_lease()
        served[each.name] = _serve(clickhouse, database, each, there.get(each.name), check_lease)
    return served


def delete_old_parts(clickhouse: ClickHouse) -> None:
    """Delete the files of replaced dates at once; ClickHouse keeps them for some minutes.

    Each table is exchanged for one that shares its current files, and dropped.

    Raises:
        ClickHouseError: ClickHouse cannot be used; repeating it completes it.
    """
    served = _served(clickhouse, [])
    delete_dropped_files(clickhouse, _STAGED)
    for name, types in served.items():
        if "session_date" in types:
            clickhouse.run(f"create table {_KEPT} as {identifier(name)}")
            clickhouse.run(f"alter table {_KEPT} attach partition all from {identifier(name)}")
            _exchange(clickhouse, _KEPT, name)


def _served(clickhouse: ClickHouse, wanted: Collection[str]) -> dict[str, dict[str, str]]:
    """Return columns and types of each served table; drop what a killed run left.

    Raises:
        ClickHouseError: A table of the wanted names is not of ours.
    """
    columns = clickhouse.select("select_served_columns", _COLUMNS)
    ours = set(columns.filter(name=STAMP)["table"])
    if others := sorted(set(columns["table"]) & set(wanted) - ours):
        raise ClickHouseError(
            f"its database has a table {others[0]} that was not served from here. Name a database "
            "that has nothing else in EVAL_SERVE_CLICKHOUSE_DSN."
        )
    found: dict[str, dict[str, str]] = {}
    for table, name, kind, default in columns.iter_rows():
        if table in ours and not default:
            found.setdefault(table, {})[name] = kind
    for name in [each for each in found if each.startswith(STAGING)]:
        _drop(clickhouse, name)
        del found[name]
    return found


def _serve(
    clickhouse: ClickHouse,
    database: duckdb.DuckDBPyConnection,
    table: ServedTable,
    there: Mapping[str, str] | None,
    check_lease: Callable[[], None],
) -> int:
    is_same = there == table.types
    if table.made_from is None:
        return _serve_whole(clickhouse, database, table, is_there=there is not None, same=is_same)
    # Other columns: readers have the table of before until the new one is complete.
    target = table.name if is_same or there is None else _NEW
    stored: dict[date, StoredDate] = {}
    if is_same:
        stored = _stored(clickhouse, target)
    else:
        clickhouse.run(create_statement(table, target))
    rows = _serve_dates(clickhouse, database, table, target, stored, check_lease)
    if target != table.name:
        check_lease()
        _exchange(clickhouse, target, table.name)
    return rows


def _serve_dates(
    clickhouse: ClickHouse,
    database: duckdb.DuckDBPyConnection,
    table: ServedTable,
    target: str,
    stored: Mapping[date, StoredDate],
    check_lease: Callable[[], None],
) -> int:
    wanted = table.made_from or {}
    due, rows = due_dates(wanted, stored), 0
    for start in range(0, len(due.sent), _DATES_PER_LOAD):
        dates = due.sent[start : start + _DATES_PER_LOAD]
        counts = _counts(database, table, dates)
        if filled := {day: wanted[day] for day in dates if counts.get(day)}:
            _load(clickhouse, database, table, target, filled, counts, check_lease)
        check_lease()
        for day in dates:
            if day in stored and day not in filled:
                _drop_date(clickhouse, target, day)
        rows += sum(counts.values())
    for day in due.dropped:
        _drop_date(clickhouse, target, day)
    return rows


def _load(
    clickhouse: ClickHouse,
    database: duckdb.DuckDBPyConnection,
    table: ServedTable,
    target: str,
    wanted: Mapping[date, str],
    counts: Mapping[date, int],
    check_lease: Callable[[], None],
) -> None:
    """Load dates into a staging table, then replace each of them in the target."""
    staging = _DATES
    clickhouse.run(f"create table {staging} as {identifier(target)}")
    stamps = {day: stamp_of(wanted[day], counts[day]) for day in wanted}
    for rows in _rows(database, table, stamps):
        clickhouse.insert_arrow(staging, rows)
    staged = _stored(clickhouse, staging)
    for day, made_from in wanted.items():
        if day not in staged or not is_whole(staged[day], made_from):
            found = staged[day].row_count if day in staged else 0
            raise ClickHouseError(
                f"it stored {found} of {counts[day]} rows of {table.name} on {day}. Does another "
                "process publish to the same database? Publish again."
            )
        check_lease()
        clickhouse.run(f"alter table {identifier(target)} replace partition '{day}' from {staging}")
    _drop(clickhouse, staging)


def _serve_whole(
    clickhouse: ClickHouse,
    database: duckdb.DuckDBPyConnection,
    table: ServedTable,
    *,
    is_there: bool,
    same: bool,
) -> int:
    # In one order: equal rows have one hash.
    query = f'select {select_list(table)} from "{table.name}" order by all'  # noqa: S608 - our names
    rows: pa.Table = database.sql(query).to_arrow_table()
    made_from = _content_hash(rows)
    if same:
        found = clickhouse.select("select_served_whole", _WHOLE, table=table.name)
        stored = StoredDate(*found.row(0))
        if is_whole(stored, made_from) or stored.row_count == rows.num_rows == 0:
            return 0
    new = _NEW if is_there or rows.num_rows else table.name
    clickhouse.run(create_statement(table, new))
    stamp = stamp_of(made_from, rows.num_rows)
    if rows.num_rows:
        stamped = rows.append_column(STAMP_IN, pa.array([stamp] * rows.num_rows))
        clickhouse.insert_arrow(new, stamped)
    if is_there:
        _exchange(clickhouse, new, table.name)
    elif rows.num_rows:
        clickhouse.run(f"rename table {new} to {identifier(table.name)}")
    return int(rows.num_rows)


def _counts(
    database: duckdb.DuckDBPyConnection, table: ServedTable, dates: Collection[date]
) -> dict[date, int]:
    query = (
        f'select session_date, count(*) from "{table.name}" '  # noqa: S608 - our names
        f"where {_is_one_of(dates)} group by session_date"
    )
    return dict(database.sql(query, params=list(dates)).fetchall())


def _rows(
    database: duckdb.DuckDBPyConnection, table: ServedTable, stamps: Mapping[date, str]
) -> Iterator[pa.Table]:
    """Yield the rows of dates, with their stamps; never more than some thousands at a time."""
    stamp = " ".join("when ? then ?" for _ in stamps)
    query = (
        f"select {select_list(table)}, case session_date {stamp} end as {STAMP_IN} "  # noqa: S608
        f'from "{table.name}" where {_is_one_of(stamps)}'
    )
    values = [*chain.from_iterable(stamps.items()), *stamps]
    for batch in database.sql(query, params=values).to_arrow_reader(_ROWS_PER_INSERT):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _is_one_of(dates: Collection[date]) -> str:
    return f"session_date in ({', '.join('?' for _ in dates)})"


def _content_hash(rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _stored(clickhouse: ClickHouse, table: str) -> dict[date, StoredDate]:
    found = clickhouse.select("select_served_dates", _OF_DATES, table=table)
    return {day: StoredDate(*rest) for day, *rest in found.iter_rows()}


def _exchange(clickhouse: ClickHouse, new: str, name: str) -> None:
    """Swap two tables, and drop what the name had."""
    clickhouse.run(f"exchange tables {new} and {identifier(name)}")
    _drop(clickhouse, new)


def _drop(clickhouse: ClickHouse, name: str) -> None:
    clickhouse.run(f"drop table if exists {identifier(name)} sync")


def _drop_date(clickhouse: ClickHouse, table: str, day: date) -> None:
    clickhouse.run(f"alter table {identifier(table)} drop partition '{day}'")
