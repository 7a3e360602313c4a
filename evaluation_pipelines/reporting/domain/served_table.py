"""A table of the analysts' database as ClickHouse serves it: types, definition, what to send.

Each row has a stamp: what its date was made from, and the number of rows of the date. It is a
column of the rows themselves, so a date and its stamp change together, and a ClickHouse that was
emptied, or restored from an older backup, says so itself. ``select *`` leaves the column out.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

STAMP = "_served_as"
STAMP_IN = "_served_as_in"
"""Name under which a stamp is inserted: ``STAMP`` itself is computed from it."""

_FORMAT = 1
"""Raise it to send everything again."""

_TYPES = {
    "VARCHAR": "String",
    "BLOB": "String",
    "BIGINT": "Int64",
    "INTEGER": "Int32",
    "UTINYINT": "UInt8",
    "DOUBLE": "Float64",
    "BOOLEAN": "Bool",
    "DATE": "Date32",
    "TIMESTAMP WITH TIME ZONE": "DateTime64(6, 'UTC')",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_NESTED = re.compile(r"(?s)(MAP|STRUCT)\(.*\)|.*\[\]")


@dataclass(frozen=True, slots=True)
class ServedColumn:
    """A column of DuckDB: name, type as DuckDB writes it, meaning."""

    name: str
    duckdb_type: str
    comment: str

    @property
    def is_json(self) -> bool:
        """Return True if it is served as JSON: ClickHouse knows no list or map that is null."""
        return bool(_NESTED.fullmatch(self.duckdb_type))


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A table to serve; ``made_from`` has a hash for each date, None for one without dates."""

    name: str
    comment: str
    columns: tuple[ServedColumn, ...]
    order: tuple[str, ...] = ()
    made_from: Mapping[date, str] | None = None

    @property
    def types(self) -> dict[str, str]:
        """Column -> type in ClickHouse."""
        partition = None if self.made_from is None else "session_date"
        return {each.name: _type(each, is_nullable=each.name != partition) for each in self.columns}


@dataclass(frozen=True, slots=True)
class StoredDate:
    """A date as ClickHouse has it: the least and the greatest stamp of its rows."""

    first_stamp: str
    last_stamp: str
    row_count: int


@dataclass(frozen=True, slots=True)
class DueDates:
    """Dates to send, and dates to drop."""

    sent: list[date]
    dropped: list[date]


def hash_of(*said: object) -> str:
    """Return a hash of what a date is made from."""
    return hashlib.sha256(repr((_FORMAT, *said)).encode()).hexdigest()


def stamp_of(made_from: str, row_count: int) -> str:
    """Return the stamp of the rows of a date."""
    return f"{made_from}:{row_count}"


def is_whole(stored: StoredDate, made_from: str) -> bool:
    """Return True if a stored date was made from this, and has all of its rows."""
    stamp = stamp_of(made_from, stored.row_count)
    return stored.first_stamp == stored.last_stamp == stamp


def due_dates(wanted: Mapping[date, str], stored: Mapping[date, StoredDate]) -> DueDates:
    """Return which dates differ from what is stored."""
    sent = [
        day
        for day, made_from in sorted(wanted.items())
        if day not in stored or not is_whole(stored[day], made_from)
    ]
    return DueDates(sent, sorted(stored.keys() - wanted.keys()))


def create_statement(table: ServedTable, name: str) -> str:
    """Return the statement that creates a table under a name."""
    types = table.types
    columns = [
        f"{identifier(each.name)} {types[each.name]} comment {text(each.comment)}"
        for each in table.columns
    ]
    columns += [
        f"{STAMP_IN} String ephemeral ''",
        f"{STAMP} String materialized {STAMP_IN}",
    ]
    partition = "" if table.made_from is None else "partition by session_date "
    # With the stamp in front ClickHouse knows the stamps of a date without reading it.
    order = ", ".join([STAMP, *map(identifier, _sortable(table))])
    return (
        f"create table {identifier(name)} ({', '.join(columns)}) engine = MergeTree "
        f"{partition}order by ({order}) settings allow_nullable_key = 1 "
        f"comment {text(table.comment)}"
    )


def select_list(table: ServedTable) -> str:
    """Return the columns of a table as DuckDB has to give them."""
    return ", ".join(
        f'to_json("{each.name}")::varchar as "{each.name}"' if each.is_json else f'"{each.name}"'
        for each in table.columns
    )


def identifier(name: str) -> str:
    """Return a name as ClickHouse reads it."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def text(value: str) -> str:
    """Return a text as ClickHouse reads it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _sortable(table: ServedTable) -> Iterable[str]:
    known = {each.name for each in table.columns if not each.is_json}
    return [each for each in table.order if each in known]


def _type(column: ServedColumn, *, is_nullable: bool) -> str:
    if column.is_json:
        name = "String"
    elif decimal := _DECIMAL.fullmatch(column.duckdb_type):
        name = f"Decimal({decimal[1]}, {decimal[2]})"
    else:
        name = _TYPES[column.duckdb_type]
    return f"Nullable({name})" if is_nullable else name
