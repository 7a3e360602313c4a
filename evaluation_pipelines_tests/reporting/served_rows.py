"""Rows of an analysts' database and of the ClickHouse that serves it, in one form to compare."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clickhouse_connect
import duckdb

Rows = Counter[str]


@contextmanager
def client_of(dsn: str) -> Iterator[Any]:
    """A client of its own, as a dashboard has one."""
    client = clickhouse_connect.get_client(dsn=dsn, autogenerate_session_id=False)
    try:
        yield client
    finally:
        client.close()


def ask(dsn: str, query: str) -> list[dict[str, Any]]:
    """The rows of a query to ClickHouse."""
    with client_of(dsn) as client:
        rows: list[dict[str, Any]] = client.query_arrow(query).to_pylist()
    return rows


def published(link: Path) -> dict[str, Rows]:
    """Table -> its rows in the analysts' database."""
    with duckdb.connect(str(link), read_only=True) as database:
        database.execute("set TimeZone = 'UTC'")
        columns = _columns(database)
        return {
            table: Counter(
                _line({name: _plain(value) for name, value in zip(types, row, strict=True)})
                for row in database.sql(f'from "{table}"').fetchall()
            )
            for table, types in columns.items()
        }


def served(dsn: str, link: Path) -> dict[str, Rows]:
    """Table -> its rows in ClickHouse; the database says which columns were lists or bytes."""
    with duckdb.connect(str(link), read_only=True) as database:
        columns = _columns(database)
    names = [row["name"] for row in ask(dsn, "show tables")]
    return {table: Counter(map(_line, _rows(dsn, table, columns[table]))) for table in names}


def _columns(database: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    query = """
        select table_name, column_name, data_type from duckdb_columns() where not internal
        order by column_index
    """
    for table, name, kind in database.sql(query).fetchall():
        found.setdefault(table, {})[name] = kind
    return found


def _rows(dsn: str, table: str, types: dict[str, str]) -> Iterator[dict[str, Any]]:
    blobs = [name for name, kind in types.items() if kind == "BLOB"]
    replaced = ", ".join(f"lower(hex({name})) as {name}" for name in blobs)
    chosen = f"* replace ({replaced})" if blobs else "*"
    for row in ask(dsn, f"select {chosen} from {table}"):  # noqa: S608
        assert list(row) == list(types), table
        yield {
            name: json.loads(value)
            if value is not None and _is_nested(types[name])
            else _plain(value)
            for name, value in row.items()
        }


def _is_nested(kind: str) -> bool:
    return kind.endswith(("[]", ")")) and not kind.startswith("DECIMAL")


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        shown = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")
        return f"{shown}+00"
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)
