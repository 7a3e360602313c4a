"""Tables written to ClickHouse: exact, only what changed, and whole dates also after a kill."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

import duckdb
import pytest

from evaluation_pipelines.reporting.domain.served_table import ServedColumn, ServedTable
from evaluation_pipelines.reporting.served_database import (
    STAGING,
    delete_old_parts,
    serve_tables,
)
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError, open_clickhouse
from evaluation_pipelines_tests.storage.dropped import drop_as_a_kill_does, dropped

ONE, TWO, THREE = (date(2026, 6, day) for day in (1, 2, 3))
CALLS = (
    ServedColumn("session_date", "DATE", "the date"),
    ServedColumn("name", "VARCHAR", "it's a \\ name"),
    ServedColumn("number", "BIGINT", ""),
)
SUMS = (ServedColumn("total", "BIGINT", ""),)


@dataclass
class Serving:
    """A database of DuckDB with two tables, and the ClickHouse that serves them."""

    database: duckdb.DuckDBPyConnection
    clickhouse: ClickHouse

    def fill(self, calls: dict[date, list[str]], total: int = 0) -> None:
        """Put the names of calls of some dates, and a total."""
        rows = [(day, name, n) for day, names in calls.items() for n, name in enumerate(names)]
        self.database.execute(
            "create or replace table calls (session_date date, name varchar, number bigint)"
        )
        if rows:
            self.database.executemany("insert into calls values (?, ?, ?)", rows)
        self.database.execute("create or replace table sums as select ?::bigint as total", [total])
        self.database.execute("set TimeZone = 'UTC'")
        self._made_from = {day: f"{names}" for day, names in calls.items()}

    def serve(self, calls: tuple[ServedColumn, ...] = CALLS) -> dict[str, int]:
        """Serve what was filled in."""
        return serve_tables(self.clickhouse, self.database, self.tables(calls))

    def tables(self, calls: tuple[ServedColumn, ...] = CALLS) -> list[ServedTable]:
        """Return both tables."""
        return [
            ServedTable("calls", "all calls", calls, ("name",), self._made_from),
            ServedTable("sums", "", SUMS),
        ]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query to ClickHouse."""
        return [
            tuple(row.values()) for row in self.clickhouse._client.query_arrow(query).to_pylist()
        ]

    def calls(self) -> dict[date, list[str]]:
        """The names that ClickHouse has."""
        found: dict[date, list[str]] = {}
        for day, name in self.rows("select session_date, name from calls order by all"):
            found.setdefault(day, []).append(name)
        return found

    def tables_there(self) -> list[str]:
        """The names of all tables of the database."""
        return [name for (name,) in self.rows("show tables")]


@pytest.fixture
def serving(one_clickhouse_dsn: str) -> Iterator[Serving]:
    """Nothing is served yet."""
    with duckdb.connect() as database, open_clickhouse(one_clickhouse_dsn, patience_s=0) as opened:
        yield Serving(database, opened)


def test_a_changed_date_alone_is_sent_and_an_emptied_or_vanished_one_goes(serving: Serving) -> None:
    serving.fill({ONE: ["a", "b"], TWO: ["c"], THREE: ["d"]}, total=4)
    assert serving.serve() == {"calls": 4, "sums": 1}
    assert serving.serve() == {"calls": 0, "sums": 0}
    assert serving.calls() == {ONE: ["a", "b"], TWO: ["c"], THREE: ["d"]}

    serving.fill({ONE: ["a", "b"], TWO: ["c", "e", "f"], THREE: []}, total=5)
    assert serving.serve() == {"calls": 3, "sums": 1}
    assert serving.calls() == {ONE: ["a", "b"], TWO: ["c", "e", "f"]}
    assert serving.rows("select total from sums") == [(5,)]

    serving.fill({TWO: ["c", "e", "f"]}, total=5)
    assert serving.serve() == {"calls": 0, "sums": 0}
    assert serving.calls() == {TWO: ["c", "e", "f"]}


def test_what_was_lost_in_clickhouse_is_sent_again(serving: Serving) -> None:
    """A deleted row, a dropped date, a dropped table: the stamps say what is there."""
    calls = {ONE: ["a", "b"], TWO: ["c"], THREE: ["d"]}
    serving.fill(calls, total=4)
    serving.serve()
    serving.clickhouse.run("delete from calls where name = 'b'")
    serving.clickhouse.run(f"alter table calls drop partition '{TWO}'")
    serving.clickhouse.run("truncate table sums")
    assert serving.serve() == {"calls": 3, "sums": 1}
    serving.clickhouse.run("drop table calls sync")
    assert serving.serve() == {"calls": 4, "sums": 0}
    assert serving.calls() == calls


def test_equal_rows_are_all_kept(serving: Serving) -> None:
    serving.fill({ONE: ["a"] * 5}, total=5)
    serving.serve()
    serving.clickhouse.run("optimize table calls final")
    assert serving.calls() == {ONE: ["a"] * 5}
    assert serving.serve() == {"calls": 0, "sums": 0}


def test_other_columns_make_another_table_and_old_tables_go(serving: Serving) -> None:
    serving.fill({ONE: ["a"], TWO: ["b"]}, total=2)
    serving.serve()
    assert serving.serve(CALLS[:2]) == {"calls": 2, "sums": 0}
    assert serving.rows("select * from calls order by all") == [(ONE, "a"), (TWO, "b")]
    serve_tables(serving.clickhouse, serving.database, serving.tables()[:1])
    assert serving.tables_there() == ["calls"]
    comment = (
        "select comment from system.columns "
        "where table = 'calls' and name = 'name' and database = currentDatabase()"
    )
    assert serving.rows(comment) == [("it's a \\ name",)]


def test_a_table_of_someone_else_is_left_alone(serving: Serving) -> None:
    serving.clickhouse.run("create table sums (total Int64) engine = MergeTree order by total")
    serving.clickhouse.run("create table notes (said String) engine = MergeTree order by said")
    serving.fill({ONE: ["a"]})
    with pytest.raises(ClickHouseError, match="a table sums that was not served from here"):
        serving.serve()
    assert serving.tables_there() == ["notes", "sums"]
    serving.clickhouse.run("drop table sums sync")
    serving.serve()
    assert serving.tables_there() == ["calls", "notes", "sums"]


def test_old_parts_are_deleted_at_once_and_the_rows_stay(serving: Serving) -> None:
    serving.fill({ONE: ["a"], TWO: ["b"]})
    serving.serve()
    serving.fill({ONE: ["a", "c"]})
    serving.serve()
    delete_old_parts(serving.clickhouse)
    parts = (
        "select sum(active), sum(not active) from system.parts "
        "where database = currentDatabase() and table = 'calls'"
    )
    assert serving.rows(parts) == [(1, 0)]
    assert serving.calls() == {ONE: ["a", "c"]}
    assert serving.serve() == {"calls": 0, "sums": 0}


def test_files_of_a_table_that_was_dropped_when_its_process_ended_are_deleted(
    serving: Serving,
) -> None:
    serving.fill({ONE: ["a"]})
    serving.serve()
    drop_as_a_kill_does(serving.clickhouse, f"{STAGING}_kept")
    delete_old_parts(serving.clickhouse)
    kept = [] if serving.clickhouse.is_embedded else [f"{STAGING}_kept"]
    assert dropped(serving.clickhouse) == kept
    assert serving.calls() == {ONE: ["a"]}


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@contextmanager
def killed_after(clickhouse: ClickHouse, statements: int) -> Iterator[None]:
    """Kill the writer before one of its statements that change something."""
    left = iter(range(statements))

    def counting(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return method(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("run", "insert_arrow"):
            patch.setattr(clickhouse, name, counting(getattr(clickhouse, name)))
        yield


SHORT = [(CALLS, (5,)), (CALLS[:2], (6,))]


@pytest.mark.parametrize(
    ("columns", "killed_before"),
    [
        *SHORT,
        *(pytest.param(columns, range(40), marks=pytest.mark.slow) for columns, _ in SHORT),
    ],
)
def test_a_kill_before_any_statement_shows_whole_dates_and_is_made_good(
    serving: Serving, columns: tuple[ServedColumn, ...], killed_before: Collection[int]
) -> None:
    before = {ONE: ["a"], TWO: ["b", "c"], THREE: ["d"]}
    after = {ONE: ["a", "e"], TWO: ["f"]}
    for statements in killed_before:
        serving.fill(before, total=4)
        serving.serve()
        serving.fill(after, total=3)
        with suppress(Killed), killed_after(serving.clickhouse, statements):
            serving.serve(columns)
            assert statements >= 10  # a killed run never comes here
        found = serving.calls()
        assert all(found.get(day) in (before[day], after.get(day)) for day in before)
        assert serving.rows("select total from sums") in ([(4,)], [(3,)])
        serving.serve(columns)
        assert serving.calls() == after
        assert not [name for name in serving.tables_there() if name.startswith(STAGING)]


def test_every_type_is_served_exactly(serving: Serving) -> None:
    serving.database.execute(_TYPED)
    kinds = serving.database.sql(
        "select column_name, data_type, '' from duckdb_columns() where table_name = 'calls'"
    )
    columns = tuple(ServedColumn(*each) for each in kinds.fetchall())
    serve_tables(serving.clickhouse, serving.database, [ServedTable("calls", "", columns)])
    query = "select * replace (hex(given) as given) from calls order by n"
    nothing, something = serving.rows(query)
    assert nothing == (0, *[None] * 9)
    n, money, happened, ratio, given, flag, small, *nested = something
    assert (n, str(money), ratio) == (1, "12.345", 0.1)
    assert happened.isoformat() == "2026-06-01T23:59:59.123456+00:00"
    assert (given, flag, small) == ("6162000FFF", True, 255)
    assert nested == ["[1,null]", '{"a":null,"b":"x\\""}', '{"k":-9223372036854775808}']


_TYPED = r"""
create table calls as
select * from (values
    (0, null, null, null, null, null, null, null, null, null),
    (1, 12.345::decimal(18, 3), timestamptz '2026-06-01 23:59:59.123456Z', 0.1::double,
        'ab\x00\x0F\xFF'::blob, true, 255::utinyint, [1, null], {'a': null, 'b': 'x"'},
        map {'k': -9223372036854775808})
) as rows(n, money, happened, ratio, given, flag, small, list, object, mix)
"""
