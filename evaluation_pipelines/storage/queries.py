"""Run SQL files in an in-memory DuckDB over Parquet files or frames.

A query gets its inputs as views and its parameters bound, and returns a frame with exactly the
columns and types of a schema. Small queries of this process share one DuckDB, since opening one
takes as long as many a query; a connection sees only its own temporary tables and views. DuckDB
returns memory only when it is closed, so a large query opens its own.

Rows exchanged between Polars and DuckDB.

This is a separate module because Polars keeps the classes it has seen, and everything their module
imported, until exit; DuckDB would then report leaks.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import duckdb
import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines.storage.sql_files import read_sql, read_steps
from evaluation_pipelines.storage.store import StoredFiles


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """A frame or a relation that exposes only an Arrow stream.

    Given each other's own types, Polars and DuckDB would import pyarrow, which takes longer than
    most queries.
    """

    source: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream (Arrow's PyCapsule interface)."""
        return self.source.__arrow_c_stream__(requested_schema)


Source: TypeAlias = pl.DataFrame | StoredFiles

StepFunction: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Steps:
    """SQL files ``sql/duckdb/<of>/<number>_<step>.sql``: each makes a table for those after it.

    Attributes:
        of: Query that they belong to.
        functions: Step -> function that makes its table of the rows of its SQL.
        last: Last step that is needed; all by default.
    """

    of: str
    functions: Mapping[str, StepFunction] = field(default_factory=dict)
    last: str | None = None

    def read(self) -> dict[str, str]:
        """Return table -> SQL; raises ValueError if there is no step ``last``."""
        steps = read_steps(self.of)
        if self.last is None:
            return steps
        if self.last not in steps:
            raise ValueError(f"{self.of} has no step {self.last}, only: {', '.join(steps)}")
        names = list(steps)
        return {name: steps[name] for name in names[: names.index(self.last) + 1]}


_TABLES = {table.name: table for table in TABLES}
_ROW_NUMBER = "row_no"
_MOST_ROWS_OF_A_FILE = 2**40
_ROW_GROUP = 122_880
"""Rows that a thread of DuckDB takes at once."""


class QueryError(UserError, ValueError):
    """A query failed, or its result does not fit its schema."""


def run_query(
    name: str,
    *,
    views: Mapping[str, Source],
    schema: pl.Schema,
    params: Mapping[str, object] | None = None,
    steps: Steps | None = None,
    small: bool = False,
) -> pl.DataFrame:
    """Run ``sql/duckdb/<name>.sql`` after its steps, and return its rows.

    Args:
        name: File name without ``.sql``.
        views: Relation name -> frame, or Parquet files that are read by column name. Each also has
            a column ``row_no`` that identifies a row within the query.
        schema: Columns of the result, in order, with their types.
        params: Values bound to ``$name`` in the SQL; every one must be used.
        steps: Steps that are run first; those of ``name`` by default.
        small: True for up to some 100,000 rows: see ``duckdb_connection``.

    Raises:
        QueryError: the SQL failed, a parameter is missing or unused, a view has no files, or the
            result does not fit the schema. The message names the query.
    """
    (rows,) = run_queries(
        {name: schema},
        views=views,
        params=params,
        steps=steps or Steps(name),
        small=small,
    )
    return rows


def run_queries(
    schemas: Mapping[str, pl.Schema],
    *,
    views: Mapping[str, Source],
    steps: Steps,
    params: Mapping[str, object] | None = None,
    small: bool = False,
) -> list[pl.DataFrame]:
    """Run several queries over the same steps, which run once; otherwise as ``run_query``.

    ``schemas`` has the columns and types of each query's result, by its name.
    """
    question = _Question(schemas, views, steps, params or {})
    with _naming(f"query {', '.join(schemas)}"):
        try:
            threads = 1 if question.is_short else None
            with duckdb_connection(small=small, threads=threads) as connection:
                return question.ask(connection)
        except duckdb.OutOfMemoryException:
            # What it can keep on disk was not enough.
            with duckdb_connection(small=False, memory_limit=_MOST_MEMORY) as connection:
                return question.ask(connection)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked; see ``run_queries``."""

    schemas: Mapping[str, pl.Schema]
    views: Mapping[str, Source]
    steps: Steps
    params: Mapping[str, object]

    @property
    def is_short(self) -> bool:
        """True if there is nothing for a second thread, which would only take memory."""
        return all(
            isinstance(source, pl.DataFrame) and source.height <= _ROW_GROUP
            for source in self.views.values()
        )

    def ask(self, connection: duckdb.DuckDBPyConnection) -> list[pl.DataFrame]:
        """Return the rows of each query."""
        for view, source in self.views.items():
            _create_view(connection, view, source)
        statements = _Statements(connection, self.params)
        for table, sql in self.steps.read().items():
            with _naming(f"step {table}", duckdb.OutOfMemoryException):
                statements.create(table, sql, self.steps.functions.get(table))
        found = [
            _fitted(statements.rows(read_sql(name)), schema)
            for name, schema in self.schemas.items()
        ]
        statements.refuse_unused()
        return found


@contextmanager
def _naming(what: str, *passed: type[Exception]) -> Iterator[None]:
    """Name the query or step in errors of others than these types."""
    try:
        yield
    except passed:
        raise
    except (duckdb.Error, pl.exceptions.PolarsError, ValueError) as error:
        raise QueryError(f"{what}: {error}") from error


def _create_view(connection: duckdb.DuckDBPyConnection, view: str, source: Source) -> None:
    """Create a view of the rows with row numbers, so that steps can look rows up."""
    if isinstance(source, pl.DataFrame):
        connection.register(view, ArrowRows(source.with_row_index(_ROW_NUMBER)))
        return
    if not source:
        raise ValueError(f"view {view} has no Parquet files")
    source.store.attach(connection)
    # A view takes no parameters and must be temporary: a variable has its files.
    files, shard = [_as_literal_glob(name) for name in source.names], source.shard
    rows_wanted = "" if shard.is_whole else f" where bucket between {shard.first} and {shard.last}"
    connection.execute(f"set variable files_of_{view} = $files", {"files": files})
    connection.execute(
        f"create temp view {view} as from read_parquet("
        f"getvariable('files_of_{view}'), union_by_name => true, hive_partitioning => false) "
        f"select *, file_index * {_MOST_ROWS_OF_A_FILE} + file_row_number as {_ROW_NUMBER}"
        f"{rows_wanted}"
    )
    _add_new_columns(connection, view)


def _add_new_columns(connection: duckdb.DuckDBPyConnection, view: str) -> None:
    """Add the columns of a table that all its files lack, since an older version wrote them."""
    table = _TABLES.get(view)
    if table is None or set(table.schema).issubset(connection.table(view).columns):
        return
    connection.execute(f"alter view {view} rename to {view}_before")
    connection.register(f"{view}_columns", ArrowRows(table.no_rows))
    connection.execute(
        f"create temp view {view} as from {view}_before union all by name from {view}_columns"
    )


def _as_literal_glob(name: str) -> str:
    """Return the name of a file with the pattern characters of DuckDB escaped."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


_PARAMETERS: dict[str, frozenset[str]] = {}
"""SQL text -> the parameters it names."""


class _Statements:
    """Statements of one connection, each with the parameters that it names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, params: Mapping[str, object]) -> None:
        self._connection, self._params = connection, params
        self._used: set[str] = set()

    def create(self, table: str, sql: str, function: StepFunction | None = None) -> None:
        """Create a temporary table from the rows of a statement, or what a function makes of it."""
        if function is not None:
            self._connection.register(table, ArrowRows(function(self.rows(sql))))
        else:
            # Only names of our own files become part of a statement.
            self._connection.execute(f"create temp table {table} as {sql}", self._bound(sql))

    def rows(self, sql: str) -> pl.DataFrame:
        """Return the rows of a statement."""
        return pl.DataFrame(ArrowRows(self._connection.sql(sql, params=self._bound(sql))))

    def refuse_unused(self) -> None:
        """Raise ValueError if a given parameter was not used by any statement."""
        if unused := self._params.keys() - self._used:
            raise ValueError(f"no such parameters: {', '.join(sorted(unused))}")

    def _bound(self, sql: str) -> dict[str, object]:
        if sql not in _PARAMETERS:  # parsing is slower than a lookup
            (statement,) = self._connection.extract_statements(sql)
            _PARAMETERS[sql] = frozenset(statement.named_parameters)
        wanted = _PARAMETERS[sql]
        self._used |= wanted
        return {key: value for key, value in self._params.items() if key in wanted}


def _fitted(result: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Return the result in the schema's order and types; only lossless casts are allowed."""
    missing = sorted(schema.keys() - result.schema.keys())
    surplus = sorted(result.schema.keys() - schema.keys())
    if missing or surplus:
        raise ValueError(f"columns that are missing: {missing}, not in the schema: {surplus}")
    wrong = [
        f"{column} is {result.schema[column]}, not {dtype}"
        for column, dtype in schema.items()
        if not _castable(result.schema[column], dtype)
    ]
    if wrong:
        raise ValueError(f"types that do not fit the schema: {'; '.join(wrong)}")
    return result.select(schema.names()).cast(schema)


def _castable(have: pl.DataType, want: pl.DataType) -> bool:
    # No Decimal: sum() over integers without a cast returns one.
    return have in (want, pl.Null()) or (have.is_integer() and want.is_integer())


_FATAL = (duckdb.FatalException, duckdb.InternalException)
_KEPT_MEMORY = "256MiB"
"""Memory that the shared DuckDB keeps for the next query."""

_USUAL_MEMORY = "350MiB"
"""Memory of a large query: it writes to disk what does not fit."""
_MOST_MEMORY = "80%"

_SPILLED = "evaluation_pipelines_spilled_"

_opening = Lock()
_shared: list[duckdb.DuckDBPyConnection] = []
"""The DuckDB that small queries share, once it is open."""


@contextmanager
def duckdb_connection(
    *, small: bool, memory_limit: str | None = None, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection for one query, and close it.

    Args:
        small: True for a query of little data: one thread of the shared DuckDB. Otherwise a new
            DuckDB.
        memory_limit: Memory of a new DuckDB, 350 MiB by default: the rest is on disk.
        threads: Threads of a new DuckDB; a thread per core by default.

    Raises:
        Exception: whatever was raised within. After an error that leaves DuckDB unusable, the next
            connection is to a new one.
    """
    engine = _shared_engine() if small else _own_engine(memory_limit, threads)
    connection = engine.cursor()
    try:
        connection.execute("set TimeZone = 'UTC'")
        # A misspelled relation must be an error, not a Python variable in scope.
        connection.execute("set python_enable_replacements = false")
        yield connection
    except Exception as error:
        if isinstance(error, _FATAL) or isinstance(error.__cause__, _FATAL):
            _forget(engine)
        raise
    finally:
        connection.close()
        if not small:
            engine.close()


def _shared_engine() -> duckdb.DuckDBPyConnection:
    with _opening:
        if not _shared:
            _shared.append(_opened(threads=1, block_allocator_memory=_KEPT_MEMORY))
        return _shared[0]


def _own_engine(memory_limit: str | None, threads: int | None) -> duckdb.DuckDBPyConnection:
    number: dict[str, int | str] = {} if threads is None else {"threads": threads}
    return _opened(memory_limit=memory_limit or _USUAL_MEMORY, **number)


def _forget(engine: duckdb.DuckDBPyConnection) -> None:
    """Stop sharing an engine; it closes with its last connection."""
    with _opening:
        if engine in _shared:
            _shared.remove(engine)


def _opened(**config: int | str) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB without network access, without caching of files, that keeps row order."""
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "enable_external_file_cache": "false",
            "temp_directory": _spill_folder().name,
            "preserve_insertion_order": "true",  # the default; numbering events relies on it
            **config,
        },
    )


@cache
def _spill_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a private spill folder (deleted at exit), and delete what killed ones left."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_SPILLED}*"):
        with suppress(OSError):  # of a process that lives, of another user, or gone
            os.close(_locked(leftover))
            shutil.rmtree(leftover)
    folder = tempfile.TemporaryDirectory(prefix=_SPILLED, ignore_cleanup_errors=True)
    _locked(folder.name)  # as long as this process lives
    return folder


def _locked(folder: Path | str) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_spilled() -> None:
    """Delete the spill folder, for ``os._exit``, which skips what is done at exit."""
    if _spill_folder.cache_info().currsize:
        _spill_folder().cleanup()


@atexit.register
def _close() -> None:
    for engine in _shared:
        engine.close()
