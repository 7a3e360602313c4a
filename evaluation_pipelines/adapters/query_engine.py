"""DuckDB in memory: one that the small queries of this process share, or one for a large query.

Opening one takes as long as many a query, a connection to it takes nothing. What a connection makes
(temporary tables and views) it alone can see, and it is gone when the connection is closed. Memory
goes back to the system only with a DuckDB: what a large query took must not stay.
"""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import duckdb

_FATAL = (duckdb.FatalException, duckdb.InternalException)
_KEPT_MEMORY = "256MiB"
"""Of the shared one: blocks that the next query finds ready."""

_opening = Lock()
_shared: list[duckdb.DuckDBPyConnection] = []
"""The one that small queries share, as soon as it is open."""


@contextmanager
def duckdb_connection(*, small: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of one's own, which is always closed.

    Args:
        small: For a query of little data: on one thread, of the DuckDB that is shared. Else it is
            to a new one, with a thread for each core.

    Raises:
        Exception: whatever went wrong within. After an error that leaves DuckDB unusable the next
            connection is to a new one.
    """
    engine = _shared_engine() if small else _opened()
    connection = engine.cursor()
    try:
        connection.execute("set TimeZone = 'UTC'")
        # A misspelt relation is an error, not a Python variable that happens to be in scope.
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


def _forget(engine: duckdb.DuckDBPyConnection) -> None:
    """Others may still have connections to it: it closes with the last of them."""
    with _opening:
        if engine in _shared:
            _shared.remove(engine)


def _opened(**config: int | str) -> duckdb.DuckDBPyConnection:
    """It never reaches for the network, forgets each file it has read, and keeps rows in order."""
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
    """What is spilled is for nobody else's eyes; the folder goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="evaluation_pipelines_")


@atexit.register
def _close() -> None:
    for engine in _shared:
        engine.close()
