"""The analysts' database, one DuckDB file, and the ClickHouse tables that it replaced.

It is built as a new file, made read-only and swapped in as a symbolic link: open connections keep
the old file, and no session can lock the pipeline.

Earlier versions published tables in ClickHouse. Forgotten people would stay there: while the
setting that named them is set, ``doctor`` and ``forget`` fail.
"""

import glob
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import duckdb
import polars as pl
from polars.datatypes import DataTypeClass

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.progress import note_progress
from evaluation_pipelines.schemas import Column, Table
from evaluation_pipelines.settings import Settings, variable_of
from evaluation_pipelines.storage.clickhouse import shown_dsn
from evaluation_pipelines.storage.lock import LockLostError
from evaluation_pipelines.storage.store import StoredFiles, refuse_link, share

SCHEMA_VERSION = 6
"""Changes when a table or column is renamed, removed or changes its meaning."""

_READABLE_FROM = "v1.0.0"
"""Oldest DuckDB that can open the file: shells of analysts lag behind."""

_SQL_TYPES = {
    "String": "varchar",
    "Int64": "bigint",
    "UInt8": "utinyint",
    "Float64": "double",
    "Boolean": "boolean",
    "Date": "date",
    "Binary": "blob",
}


class AnalyticsError(UserError):
    """The database could not be built; the message names the cause and what to do."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column with the value of one key of a map: ``name``, the ``map`` and its ``key``."""

    name: str
    map: str
    key: str

    @property
    def described(self) -> Column:
        """The column with its meaning."""
        return Column(self.name, pl.String(), f"{self.map}: {self.key}")


@dataclass(frozen=True, slots=True)
class Source:
    """One table for analysts: its Parquet files, or rows that are not in the lake.

    ``copied`` tables are stored in the database; others are views of the files. ``as_map`` names
    columns of key-value pairs, ``more`` columns that are made of these. ``nulls`` names fields of
    lists that are published as null, by column.
    """

    table: Table
    rows: StoredFiles | pl.DataFrame
    copied: bool = True
    as_map: tuple[str, ...] = ()
    more: tuple[KeyColumn, ...] = ()
    nulls: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Derived:
    """A view over other tables: its query, and the meaning of each column."""

    name: str
    description: str
    query: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """Result of publishing: the new file, its link, and rows of each copied table."""

    link: Path
    file: Path
    rows: dict[str, int]
    size_bytes: int


def replace_database(
    link: Path,
    sources: Sequence[Source],
    derived: Sequence[Derived],
    now: datetime,
    group_id: int | None = None,
    before_swap: Callable[[Path], None] = lambda _file: None,
) -> Published:
    """Build a new database and point ``link`` to it; ``group_id`` may read it as well.

    ``before_swap`` is called with the finished file, before anyone can open it.

    Raises:
        AnalyticsError: a Parquet file is damaged, the folder cannot be written, or another process
            publishes; the previous database stays.
    """
    folder = link.parent / f"{link.stem}_files"
    file = folder / f"{link.stem}-{now:%Y%m%dT%H%M%S}-{_suffix()}.duckdb"
    try:
        refuse_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows = _build(file, sources, derived, now)
        share(folder, group_id)
        share(file, group_id)
        file.chmod(file.stat().st_mode & 0o444)
        before_swap(file)
        before = link.resolve()
        size = file.stat().st_size
        _swap(link, file)
    except (OSError, LockLostError, duckdb.Error) as error:
        for path in (file, file.with_name(f"{file.name}.wal")):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise AnalyticsError(
            f"{link} was not published: {error}. Fix the cause and publish again. "
            "The previous database is still there."
        ) from error
    _tidy(folder, {file.name, before.name})
    return Published(link, file, rows, size)


def _build(
    file: Path, sources: Sequence[Source], derived: Sequence[Derived], now: datetime
) -> dict[str, int]:
    rows: dict[str, int] = {}
    with _database(file) as database:
        for source in sources:
            note_progress()
            _create(database, source)
            table, is_view = source.table, not source.copied
            comment = f"{table.grain}; key: {', '.join(table.key)}"
            more = [column.described for column in source.more]
            _describe(database, table.name, comment, [*table.columns, *more], is_view=is_view)
            if not is_view:
                rows[table.name] = database.table(table.name).shape[0]
        for view in derived:
            database.execute(f"create view {view.name} as {view.query}")
            _describe(database, view.name, view.description, view.columns, is_view=True)
        _mark(database, now)
    return rows


def _mark(database: duckdb.DuckDBPyConnection, now: datetime) -> None:
    database.execute("create table schema_version (version integer, published_at timestamptz)")
    database.execute("insert into schema_version values (?, ?)", [SCHEMA_VERSION, now])
    said = (
        Column("version", pl.Int32(), "version of tables and columns, unchanged by additions"),
        Column("published_at", pl.Datetime("us", "UTC"), "when this file was made"),
    )
    text = "version and time of this file"
    _describe(database, "schema_version", text, said, is_view=False)


@contextmanager
def _database(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(
        str(file),
        config={
            "autoload_known_extensions": "false",
            "storage_compatibility_version": _READABLE_FROM,
        },
    )
    try:
        connection.execute("set TimeZone = 'UTC'")
        # In a process of ``python -c``, such as a run of Dagster, it would be drawn into the log.
        connection.execute("set enable_progress_bar = false")
        # Hundreds of statements describe columns: each would be synced to the disk alone.
        connection.execute("begin")
        yield connection
        connection.execute("commit")
        connection.execute("checkpoint")  # everything in the one file, no write-ahead log
    finally:
        connection.close()


def _create(database: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Create a table. The statement takes no parameters: all values are quoted."""
    table, found, order = source.table, source.rows, ""
    # Files that are older than a column lack it: the empty rows name every column.
    rows = _nothing(table)
    if isinstance(found, pl.DataFrame):
        database.register("given_rows", found.select(table.schema.names()).to_arrow())
        rows += " union all by name select * from given_rows"
    else:
        found.store.attach(database)
        order = f" order by {', '.join(table.order)}" if source.copied else ""
        if found:
            # Names are our own, paths are quoted and their pattern characters escaped.
            files = ", ".join(_quoted(glob.escape(address)) for address in found.addresses)
            rows += (
                f" union all by name select * from read_parquet([{files}], "  # noqa: S608
                "union_by_name = true, hive_partitioning = false)"
            )
    kind, columns = "table" if source.copied else "view", ", ".join(_columns(source))
    database.execute(f"create {kind} {table.name} as select {columns} from ({rows}){order}")  # noqa: S608


def _columns(source: Source) -> Iterator[str]:
    """Yield the expressions of all columns."""
    for column in source.table.columns:
        yield _column(source, column.name)
    for more in source.more:
        yield f'map_from_entries({more.map})[{_quoted(more.key)}] as "{more.name}"'


def _column(source: Source, name: str) -> str:
    """Return the expression that publishes a column."""
    if name in source.as_map:
        return f"map_from_entries({name}) as {name}"
    if name in source.nulls:
        nulls = ", ".join(f"{null} := cast(null as varchar)" for null in source.nulls[name])
        return f"list_transform({name}, lambda item: struct_update(item, {nulls})) as {name}"
    return name


def _nothing(table: Table) -> str:
    """Return a query with a table's columns and no rows."""
    columns = ", ".join(
        f"cast(null as {_sql_type(column.dtype)}) as {column.name}" for column in table.columns
    )
    return f"select {columns} where false"


def _sql_type(dtype: pl.DataType) -> str:
    """Return DuckDB's name of a type."""
    if isinstance(dtype, pl.Datetime):
        return "timestamptz"
    if isinstance(dtype, pl.Struct):
        fields = (f'"{inner.name}" {_sql_type(_instance(inner.dtype))}' for inner in dtype.fields)
        return f"struct({', '.join(fields)})"
    if isinstance(dtype, pl.List):
        return f"{_sql_type(_instance(dtype.inner))}[]"
    return _SQL_TYPES[str(dtype)]


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def _describe(
    database: duckdb.DuckDBPyConnection,
    name: str,
    description: str,
    columns: Sequence[Column],
    *,
    is_view: bool,
) -> None:
    kind = "view" if is_view else "table"
    database.execute(f"comment on {kind} {name} is {_quoted(description)}")
    for column in columns:
        comment = _quoted(column.description)
        database.execute(f'comment on column {name}."{column.name}" is {comment}')


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _suffix() -> str:
    return uuid.uuid4().hex[:8]


def _swap(link: Path, file: Path) -> None:
    """Point the link to another file, atomically."""
    waiting = link.with_name(f".{link.name}-{_suffix()}")
    waiting.symlink_to(file.relative_to(link.parent))
    waiting.replace(link)


def _tidy(folder: Path, kept: Collection[str]) -> None:
    """Delete databases with other names than ``kept``, and their logs; open connections keep them.

    The previous database stays for those who have just followed the link to it, whatever a killed
    publish has left since. What cannot be deleted is tried again by the next publish.
    """
    for path in folder.glob("*.duckdb*"):
        # The write-ahead log of a user who opened the file for writing, or of a full disk.
        if path.name.removesuffix(".wal") not in kept:
            with suppress(OSError):
                path.unlink(missing_ok=True)


# A hidden column of each published table, and of each staging table that a killed publish left.
_STAMP = "_served_as"


class ServedCopy(NamedTuple):
    """What was found, and what to do: drop the tables, then unset the variable."""

    seen: str
    advice: str


def served_copy(settings: Settings) -> ServedCopy | None:
    """Return what to drop; ``None`` if no such database is named."""
    if settings.serve_clickhouse_dsn is None:
        return None
    dsn = settings.serve_clickhouse_dsn.get_secret_value()
    variable = variable_of("serve_clickhouse_dsn")
    return ServedCopy(
        f"{variable} names ClickHouse at {shown_dsn(dsn)}: its copy of the published tables is no "
        "longer updated, and forget and expire do not reach it",
        f"run there the statements that this query returns: {_drop_statements(dsn)}. Then unset "
        f"{variable}",
    )


def _drop_statements(dsn: str) -> str:
    """Return a query of the statements that drop the copy, and nothing else of the database."""
    name = unquote(urlsplit(dsn).path.strip("/")) or "default"
    database = name.replace("\\", "\\\\").replace("'", "\\'")
    drop = "select concat('drop table `', database, '`.`', table, '` sync;') from system.columns"
    return f"{drop} where database = '{database}' and name = '{_STAMP}'"
