"""Queries over files and frames, and what is said when something does not fit."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.storage import queries, sql_files
from evaluation_pipelines.storage.queries import (
    QueryError,
    Steps,
    duckdb_connection,
    run_queries,
    run_query,
)
from evaluation_pipelines.storage.sql_files import read_sql, read_steps
from evaluation_pipelines.storage.store import LocalStore, StoredFiles

N = pl.Schema({"n": pl.Int64})
TEXT = pl.Schema({"text": pl.String})

WriteSql = Callable[..., None]


@pytest.fixture
def write_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteSql:
    """Writes the query ``q`` and its steps."""
    folder = tmp_path / "sql"
    monkeypatch.setattr(sql_files, "_FOLDERS", (folder,))

    def write(sql: str, **steps: str) -> None:
        (folder / "q").mkdir(parents=True)
        (folder / "q.sql").write_text(sql, encoding="utf-8")
        for number, (table, step) in enumerate(steps.items()):
            (folder / "q" / f"{number:03}_{table}.sql").write_text(step, encoding="utf-8")

    return write


def written(path: Path, frame: pl.DataFrame) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        frame.write_parquet(file)
    return path


def files(*paths: Path) -> StoredFiles:
    return StoredFiles(LocalStore(Path("/")), [str(path) for path in paths])


def test_a_frame_and_files_are_read_by_their_view_names(
    write_sql: WriteSql, tmp_path: Path
) -> None:
    write_sql("select a.n + b.n as n from a, b")
    file = written(tmp_path / "b.parquet", pl.DataFrame({"n": [40]}))

    result = run_query("q", views={"a": pl.DataFrame({"n": [2]}), "b": files(file)}, schema=N)

    assert result.equals(pl.DataFrame({"n": [42]}))


def test_files_are_matched_by_column_name_and_a_missing_column_is_null(
    write_sql: WriteSql, tmp_path: Path
) -> None:
    write_sql("select m, n from t order by n")
    paths = [
        written(tmp_path / "1.parquet", pl.DataFrame({"n": [1], "m": ["x"]})),
        written(tmp_path / "2.parquet", pl.DataFrame({"n": [2]})),
    ]
    schema = pl.Schema({"n": pl.Int64, "m": pl.String})

    assert run_query("q", views={"t": files(*paths)}, schema=schema).rows() == [(1, "x"), (2, None)]


def test_a_path_is_never_a_pattern_and_a_folder_name_never_a_column(
    write_sql: WriteSql, tmp_path: Path
) -> None:
    write_sql("select * exclude (row_no) from t")
    file = written(tmp_path / "day=1" / "a[b]*?.parquet", pl.DataFrame({"n": [1]}))
    written(tmp_path / "day=1" / "ab*x.parquet", pl.DataFrame({"n": [2]}))

    assert run_query("q", views={"t": files(file)}, schema=N).rows() == [(1,)]


def test_a_row_is_found_again_by_its_number(write_sql: WriteSql, tmp_path: Path) -> None:
    frames = [pl.DataFrame({"n": [1, 2]}), pl.DataFrame({"n": [3, 4, 5]})]
    paths = [written(tmp_path / f"{n}.parquet", frame) for n, frame in enumerate(frames)]
    write_sql(
        "select one.n as n from t as one inner join other on one.row_no = other.row_no "
        "where one.n = other.n order by n",
        other="select row_no, n from t",
    )

    for source in (files(*paths), pl.concat(frames)):
        assert run_query("q", views={"t": source}, schema=N)["n"].to_list() == [1, 2, 3, 4, 5]


def test_a_view_without_files_is_an_error(write_sql: WriteSql) -> None:
    write_sql("select * from t")

    with pytest.raises(QueryError, match="query q: view t has no Parquet files"):
        run_query("q", views={"t": files()}, schema=N)


def test_steps_are_tables_for_those_that_follow(write_sql: WriteSql) -> None:
    write_sql(
        "select n * 2 as n from c",
        b="select $start + 1 as n",
        c="select n + $more as n from b",
    )

    result = run_query("q", views={}, params={"start": 10, "more": 10}, schema=N)

    assert result.rows() == [(42,)]


def test_only_the_steps_up_to_the_last_that_is_needed_are_run(write_sql: WriteSql) -> None:
    write_sql("select n from one", one="select 1 as n", broken="select * from nowhere")

    assert run_query("q", views={}, schema=N, steps=Steps("q", last="one")).item() == 1
    with pytest.raises(QueryError, match="query q: q has no step two, only: one, broken"):
        run_query("q", views={}, schema=N, steps=Steps("q", last="two"))


def test_a_step_with_a_function_is_what_the_function_makes_of_its_rows(write_sql: WriteSql) -> None:
    write_sql("select sum(n)::bigint as n from doubled", doubled="select 21 as n")
    steps = Steps("q", {"doubled": lambda rows: pl.concat([rows, rows])})

    assert run_query("q", views={}, schema=N, steps=steps).item() == 42


def test_queries_over_the_same_steps_find_them_worked_out_once(
    write_sql: WriteSql, tmp_path: Path
) -> None:
    # Every time it is worked out, it is another number.
    write_sql("select * from dice", dice="select random() as n, $more as more")
    schema = pl.Schema({"n": pl.Float64(), "more": pl.Int64()})
    options: dict[str, Any] = {"views": {}, "params": {"more": 1}, "steps": Steps("q")}
    (tmp_path / "sql" / "p.sql").write_text("select n from dice", encoding="utf-8")

    one, other = run_queries({"q": schema, "p": pl.Schema({"n": pl.Float64()})}, **options)

    assert one["n"].item() == other["n"].item()


def test_values_are_bound_not_written_into_the_sql(write_sql: WriteSql) -> None:
    write_sql("select $text as text")
    text = "'; drop table x; --"

    result = run_query("q", views={}, params={"text": text}, schema=TEXT)

    assert result.item() == text


@pytest.mark.parametrize(
    ("params", "said"),
    [({}, "n"), ({"n": 1, "m": 2}, "query q: no such parameters: m")],
    ids=["missing", "surplus"],
)
def test_parameters_must_be_those_of_the_sql(
    write_sql: WriteSql, params: dict[str, object], said: str
) -> None:
    write_sql("select $n as n")

    with pytest.raises(QueryError, match=said):
        run_query("q", views={}, params=params, schema=N)


def test_the_result_has_the_order_and_types_of_the_schema(write_sql: WriteSql) -> None:
    write_sql("select null as s, 1::integer as n, timestamptz '2026-11-02 10:00:00+01' as t")
    schema = pl.Schema({"n": pl.Int64(), "t": pl.Datetime("us", "UTC"), "s": pl.String()})

    result = run_query("q", views={}, schema=schema)

    assert result.schema == schema
    assert result.rows() == [(1, datetime(2026, 11, 2, 9, tzinfo=UTC), None)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select 1 as m", r"missing: \['n'\], not in the schema: \['m'\]"),
        ("select 1 as n, 2 as m", r"missing: \[\], not in the schema: \['m'\]"),
        ("select 1.5::double as n", "n is Float64, not Int64"),
        ("select '1' as n", "n is String, not Int64"),
        # The trap: a sum of integers that was not cast.
        ("select sum(x) as n from range(3) as t (x)", "n is Decimal.*, not Int64"),
        ("select 18446744073709551615::ubigint as n", "conversion"),
        ("select nope as n", 'Binder Error: .*"nope"'),
        ("select n from n_of_nobody", "n_of_nobody"),
    ],
)
def test_a_result_that_does_not_fit_is_an_error_that_names_the_query(
    write_sql: WriteSql, sql: str, said: str
) -> None:
    write_sql(sql)

    with pytest.raises(QueryError, match=f"(?s)^query q: .*{said}"):
        run_query("q", views={}, schema=N)


def test_an_error_in_a_step_names_the_step(write_sql: WriteSql) -> None:
    write_sql("select n from b", b="select nope as n")

    with pytest.raises(QueryError, match=r"^query q: step b: Binder Error"):
        run_query("q", views={}, schema=N)


def test_a_variable_of_python_is_no_relation(write_sql: WriteSql) -> None:
    write_sql("select n from local_frame")
    local_frame = pl.DataFrame({"n": [1]})

    with pytest.raises(QueryError, match="local_frame"):
        run_query("q", views={}, schema=N)
    assert local_frame.height == 1


@pytest.mark.parametrize("step", [False, True])
def test_a_query_that_does_not_fit_into_the_usual_memory_takes_more(
    write_sql: WriteSql, monkeypatch: pytest.MonkeyPatch, step: bool
) -> None:
    monkeypatch.setattr(queries, "_USUAL_MEMORY", "40MiB")
    # 100 letters of each of 500 000 rows in one text: 50 MB that cannot be on disk.
    sql = (
        "select length(string_agg(repeat('x', 100), '' order by i))::bigint as n "
        "from range(500000) as t (i)"
    )
    write_sql("select n from made", made=sql) if step else write_sql(sql)

    assert run_query("q", views={}, schema=N).rows() == [(50_000_000,)]

    monkeypatch.setattr(queries, "_MOST_MEMORY", "40MiB")
    with pytest.raises(QueryError, match=r"^query q: Out of Memory"):
        run_query("q", views={}, schema=N)


small_connection = partial(duckdb_connection, small=True)


def setting(of: duckdb.DuckDBPyConnection, name: str) -> str:
    (value,) = of.execute("select current_setting($name)::varchar", {"name": name}).fetchone() or ()
    return str(value)


def test_what_is_spilled_is_for_nobody_elses_eyes() -> None:
    with small_connection() as opened:
        folder = Path(setting(opened, "temp_directory"))

    assert folder.stat().st_mode & 0o077 == 0


def test_spill_folders_of_killed_processes_are_removed_and_those_of_others_stay(
    tmp_path: Path,
) -> None:
    def opened(end: str) -> subprocess.Popen[bytes]:
        code = (
            "import os, sys; from evaluation_pipelines.storage.queries import *\n"
            f"with duckdb_connection(small=True): print(flush=True); {end}"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.read(1) == b"\n"
        return process

    opened("os._exit(9)").communicate(timeout=30)
    (killed,) = tmp_path.iterdir()
    service = opened(
        "sys.stdin.read(); from evaluation_pipelines.service import serve; serve._end()"
    )
    (living,) = tmp_path.iterdir()
    assert living != killed
    opened("pass").communicate(timeout=30)
    assert list(tmp_path.iterdir()) == [living]
    service.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []


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


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder in a wheel and the one in a checkout, both empty."""
    found = (tmp_path / "wheel", tmp_path / "checkout")
    for folder in found:
        folder.mkdir()
    monkeypatch.setattr(sql_files, "_FOLDERS", found)
    return found


def test_what_a_wheel_carries_comes_before_what_lies_beside_it(folders: tuple[Path, Path]) -> None:
    for folder, sql in zip(folders, ("select 1", "select 2"), strict=True):
        (folder / "q.sql").write_text(sql, encoding="utf-8")

    assert read_sql("q") == "select 1"


def test_steps_come_in_the_order_of_their_numbers(folders: tuple[Path, Path]) -> None:
    (folders[1] / "q").mkdir()
    for name in ("q.sql", "q/020_b.sql", "q/010_c.sql", "q/100_a.sql"):
        (folders[1] / name).write_text(f"-- {name}", encoding="utf-8")

    assert read_steps("q") == {"c": "-- q/010_c.sql", "b": "-- q/020_b.sql", "a": "-- q/100_a.sql"}


def test_a_step_without_a_number_is_refused(folders: tuple[Path, Path]) -> None:
    (folders[1] / "q").mkdir()
    for name in ("q.sql", "q/first.sql"):
        (folders[1] / name).touch()

    with pytest.raises(ValueError, match=r"first\.sql: a step is named NNN_<table>\.sql"):
        read_steps("q")


@pytest.mark.usefixtures("folders")
def test_a_file_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() -> None:
    with pytest.raises(FileNotFoundError, match=r"no SQL file nope\.sql in .*wheel, .*checkout"):
        read_sql("nope")
    assert read_steps("nope") == {}
