"""One DuckDB for all queries of a process: what a connection makes is its own."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import duckdb
import pytest

from evaluation_pipelines.storage.queries import duckdb_connection

small_connection = partial(duckdb_connection, small=True)


def setting(of: duckdb.DuckDBPyConnection, name: str) -> str:
    (value,) = of.execute("select current_setting($name)::varchar", {"name": name}).fetchone() or ()
    return str(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TimeZone", "UTC"),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("enable_external_file_cache", "false"),
        ("python_enable_replacements", "false"),
    ],
)
def test_nothing_is_fetched_and_nothing_is_guessed(name: str, value: str) -> None:
    with small_connection() as opened:
        assert setting(opened, name) == value


def test_what_is_spilled_is_for_nobody_elses_eyes() -> None:
    with small_connection() as opened:
        folder = Path(setting(opened, "temp_directory"))

    assert folder.stat().st_mode & 0o077 == 0


def test_tables_and_views_of_one_connection_are_not_there_for_another() -> None:
    with small_connection() as one, small_connection() as other:
        one.execute("create temp table t as select 1 as n")
        one.execute("create temp view v as select 2 as n")

        for query in ("select n from t", "select n from v"):
            with pytest.raises(duckdb.CatalogException, match="does not exist"):
                other.execute(query)
    with (
        small_connection() as later,
        pytest.raises(duckdb.CatalogException, match="does not exist"),
    ):
        later.execute("select n from t")


def test_connections_in_threads_do_not_see_each_others_tables() -> None:
    together = Barrier(4)

    def found(number: int) -> int:
        with small_connection() as opened:
            together.wait(timeout=30)
            opened.execute("create temp table t as select $n as n", {"n": number})
            together.wait(timeout=30)
            (value,) = opened.execute("select n from t").fetchone() or ()
            return int(value)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(found, range(4))) == [0, 1, 2, 3]


def test_a_connection_is_closed_whatever_happens() -> None:
    with pytest.raises(ValueError, match="mine"), small_connection() as opened:
        raise ValueError("mine")

    with pytest.raises(duckdb.ConnectionException, match="closed"):
        opened.execute("select 1")


@pytest.mark.parametrize("fatal", [duckdb.FatalException, duckdb.InternalException])
@pytest.mark.parametrize("is_named", [False, True])
def test_after_a_fatal_error_there_is_a_new_one(fatal: type[duckdb.Error], is_named: bool) -> None:
    with small_connection() as opened:
        opened.execute("attach ':memory:' as mark")
    with small_connection() as opened:
        opened.execute("use mark")  # attached for all connections
    broken = fatal("no longer to be used")
    told = ValueError("query q") if is_named else broken
    told.__cause__ = broken if is_named else None
    with pytest.raises(type(told)), small_connection():
        raise told

    with small_connection() as opened, pytest.raises(duckdb.CatalogException, match="mark"):
        opened.execute("use mark")


def test_a_large_query_has_a_duckdb_of_its_own() -> None:
    with duckdb_connection(small=False) as large, small_connection() as small:
        large.execute("attach ':memory:' as mark")
        with pytest.raises(duckdb.CatalogException, match="mark"):
            small.execute("use mark")
        assert setting(small, "threads") == "1"
    with duckdb_connection(small=False) as later, pytest.raises(duckdb.Error, match="mark"):
        later.execute("use mark")
