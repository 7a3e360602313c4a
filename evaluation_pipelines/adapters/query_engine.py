"""The DuckDB in memory that the queries of this process share.

Opening one takes as long as many a query, a connection to it takes nothing. What a connection makes
(temporary tables and views) it alone can see, and it is gone when the connection is closed. Threads
belong to a DuckDB, so there is one for each number of them that is asked for.
"""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import duckdb

_opening = Lock()


@contextmanager
def duckdb_connection(threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of one's own, which is always closed.

    Args:
        threads: So many work on one query; one for each core when not given.

    Raises:
        duckdb.Error: whatever went wrong within. After an error that leaves DuckDB unusable the
            next connection is to a new one.
    """
    with _opening:
        cursor = _engine(threads).cursor()
    try:
        cursor.execute("set TimeZone = 'UTC'")
        # A misspelt relation is an error, not a Python variable that happens to be in scope.
        cursor.execute("set python_enable_replacements = false")
        yield cursor
    except (duckdb.FatalException, duckdb.InternalException):
        _engine.cache_clear()
        raise
    finally:
        cursor.close()


@cache
def _engine(threads: int | None) -> duckdb.DuckDBPyConnection:
    """It never reaches for the network, and forgets each file it has read."""
    engine = duckdb.connect(
        ":memory:",
        config={
            **({} if threads is None else {"threads": threads}),
            "block_allocator_memory": "256MiB",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "enable_external_file_cache": "false",
            "temp_directory": _spill_folder().name,
        },
    )
    atexit.register(engine.close)
    return engine


@cache
def _spill_folder() -> tempfile.TemporaryDirectory[str]:
    """What is spilled is for nobody else's eyes; the folder goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="evaluation_pipelines_")
