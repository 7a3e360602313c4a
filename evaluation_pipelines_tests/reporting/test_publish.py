"""The analysts' database: its tables, of one moment, replaced by no older one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import Build
from evaluation_pipelines.definitions import defs
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.reporting import analysts_database
from evaluation_pipelines.reporting import publish as publishing
from evaluation_pipelines.reporting.analysts_database import (
    SCHEMA_VERSION,
    AnalyticsError,
)
from evaluation_pipelines.reporting.publish import LEFT_OUT, publish_analytics
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    RANKED_PERFORMANCE,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TABLES,
    Table,
)
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import PUBLISHED_DATABASES
from evaluation_pipelines_tests.storage.full_disk import files_up_to
from evaluation_pipelines_tests.telemetry.schema_promise import columns_of, promise_of
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line, session
from evaluation_pipelines_tests.world.built_before import build_from
from evaluation_pipelines_tests.world.lake_files import paths_of, rewrite

HOLD_IT_OPEN = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read_only")
print(connection.sql("select count(*) from agent_sessions").fetchall()[0][0], flush=True)
sys.stdin.readline()
print(connection.sql("select count(*) from agent_sessions").fetchall()[0][0], flush=True)
"""


def work(session: str, second: float = 0) -> bytes:
    """One line: a prompt and a successful call of a session."""
    return line(
        claude("user_prompt", second, session__id=session),
        claude("tool_result", second + 1, session__id=session, tool_name="Bash", success="true"),
    )


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.sql(query).fetchall()


@pytest.fixture
def published(workplace: Workplace) -> Path:
    """A database with one session."""
    build_from(workplace, work("s1"))
    return publish_analytics(workplace.stores, NOW).link


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for all tests that only read it."""
    with open_workplace(tmp_path_factory.mktemp("published")) as workplace:
        build_from(workplace, work("s1"))
        yield publish_analytics(workplace.stores, NOW).link


def test_it_holds_the_rows_of_the_lake(workplace: Workplace, published: Path) -> None:
    assert ask(published, "select session_key, total_tools from agent_sessions") == [
        ("s1#baseline-1", 1)
    ]
    assert ask(published, "select count(*) from agent_events") == [(2,)]
    composite = workplace.performance()["composite"].item()
    assert ask(published, "select composite, tool_mix['shell'] from sessions") == [(composite, 1)]
    assert ask(published, "select version, published_at from schema_version") == [
        (SCHEMA_VERSION, NOW)
    ]


def test_every_table_and_column_says_what_it_is(kept: Path) -> None:
    nameless = """
        select table_name, column_name from duckdb_columns()
        where comment is null and not internal
    """
    assert ask(kept, nameless) == []
    said = """
        select column_name, comment from duckdb_columns()
        where table_name = 'session_performance'
        order by column_index
    """
    meant = [(column.name, column.description) for column in RANKED_PERFORMANCE.columns]
    assert ask(kept, said) == meant
    tables = """
        select comment from duckdb_tables()
        union all
        select comment from duckdb_views() where not internal
    """
    assert (None,) not in ask(kept, tables)


def test_every_table_is_published_or_left_out_for_a_reason(kept: Path) -> None:
    """An asset that is not published fails here."""
    tables = "select table_name from duckdb_columns() where not internal"
    there = {name for (name,) in ask(kept, tables)}
    known = {table.name for table in TABLES}
    assert there == known - LEFT_OUT.keys() | {"sessions", "current_scorecards", "schema_version"}
    assert set(LEFT_OUT) <= known
    # Assets without a table: commit_outcomes adds rows to session_outcomes.
    reports = {"analytics_database", "model_comparison_report", "retention", "commit_outcomes"}
    assets = {key.to_user_string() for key in defs().resolve_all_asset_keys()}
    assert assets - reports <= there | LEFT_OUT.keys()


@pytest.mark.parametrize("with_texts", [False, True])
def test_texts_of_sessions_are_published_on_request_alone(tmp_path: Path, with_texts: bool) -> None:
    """A group may read the database without texts."""
    failed = {"tool_name": "Bash", "success": "false", "error": "SECRET of an error"}
    parameters = json.dumps({"command": "make SECRET-of-a-call"})
    with open_workplace(tmp_path, publish_texts=with_texts) as workplace:
        calls = [
            claude("tool_result", n, session__id="s1", tool_input=parameters, **failed)
            for n in range(1, 5)
        ]
        prompt = claude("user_prompt", 0, session__id="s1", prompt="SECRET of a prompt")
        build_from(workplace, line(prompt, *calls))
        link = publish_analytics(workplace.stores, NOW).link
    ((repeats, loops, failures),) = ask(link, "select repeats, loops, failures from tool_reports")
    assert repeats or loops
    assert failures
    names = "select distinct table_name from duckdb_columns() where not internal"
    telling = {name for (name,) in ask(link, names) if "SECRET" in f"{ask(link, f'from {name}')}"}
    with_them = {"event_texts", "event_texts_landed", "tool_reports"}
    assert telling == (with_them if with_texts else set())


def test_what_a_schema_version_promised_is_there(kept: Path) -> None:
    """A column that is renamed, removed or of another type needs a new version and a new list.

    ``python -m evaluation_pipelines_tests.telemetry.schema_promise`` writes that.
    """
    promised = promise_of(SCHEMA_VERSION).read_text("utf-8").splitlines()
    there = columns_of(kept)
    assert sorted(set(promised) - set(there)) == []
    tables = {line.split(".")[0] for line in there}
    assert {line.split(".")[0] for line in promised} == tables, "a new table is promised, too"


def test_a_database_of_an_empty_lake_has_all_tables_with_their_types(
    workplace: Workplace, kept: Path
) -> None:
    link = publish_analytics(workplace.stores, NOW).link
    assert columns_of(link) == columns_of(kept)
    with duckdb.connect(str(link), read_only=True) as connection:
        for stored in (table for table in TABLES if table.name not in LEFT_OUT):
            table = RANKED_PERFORMANCE if stored is SESSION_PERFORMANCE else stored
            empty = connection.table(table.name).pl()
            hidden = hidden_columns("team")
            names = [column.name for column in table.columns if column.name not in hidden]
            assert empty.columns == names
            assert empty.is_empty()


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("table", "column"), [(SESSION_EVALUATIONS, "excluded_by"), (AGENT_SESSIONS, "tool_mix")]
)
def test_files_from_before_a_column_was_added_have_nulls_there(
    workplace: Workplace, table: Table, column: str
) -> None:
    rewrite(workplace.stores, table, lambda rows: rows.drop(column))
    link = publish_analytics(workplace.stores, NOW).link
    counted = f"select count(*), count({column}) from {table.name}"  # noqa: S608 - our names
    assert ask(link, counted) == [(1, 0)]


def test_it_cannot_be_written_to_by_those_who_may_only_read(kept: Path) -> None:
    assert kept.is_symlink()
    assert kept.resolve().stat().st_mode & 0o222 == 0


def test_the_shells_of_years_ago_can_open_it(kept: Path) -> None:
    """The format is the oldest that they know; DuckDB writes its newest one unless told."""
    query = "select tags['storage_version'] from duckdb_databases() where not internal"
    assert ask(kept, query) == [("v1.0.0+",)]


@pytest.mark.parametrize("mode", ["read_only", "read_write"])
def test_an_open_session_keeps_its_state_and_stops_nobody(
    workplace: Workplace, published: Path, mode: str
) -> None:
    analyst = subprocess.Popen(
        [sys.executable, "-c", HOLD_IT_OPEN, str(published), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with analyst:
        assert analyst.stdout is not None
        assert analyst.stdout.readline() == "1\n"
        workplace.land("more.jsonl", work("s2", 60))
        workplace.ingest()
        workplace.build()
        for again in range(3):
            publish_analytics(workplace.stores, NOW + timedelta(seconds=again + 1))
        assert ask(published, "select count(*) from agent_sessions") == [(2,)]
        out, _ = analyst.communicate("go on\n", timeout=30)
    assert out == "1\n"
    assert analyst.returncode == 0


def test_an_open_database_reads_its_files_while_dates_are_rebuilt_and_swept(
    workplace: Workplace, published: Path
) -> None:
    def rebuild_and_sweep() -> None:
        Build(workplace.stores, clock=lambda: NOW).run(workplace.lake.partitions(AGENT_EVENTS))
        sweep_superseded(workplace.stores, NOW + timedelta(days=1))

    def events() -> int:
        ((count,),) = reader.sql("select count(*) from agent_events").fetchall()
        return int(count)

    (first,) = paths_of(workplace.lake, AGENT_EVENTS)
    with duckdb.connect(str(published.resolve()), read_only=True) as reader:
        rebuild_and_sweep()
        rebuild_and_sweep()
        assert paths_of(workplace.lake, AGENT_EVENTS) != [first]
        assert events() == 2
        publish_analytics(workplace.stores, NOW + timedelta(seconds=1))
        rebuild_and_sweep()
        assert events() == 2
    # Two newer databases: nothing that may still be open names the first file.
    publish_analytics(workplace.stores, NOW + timedelta(seconds=2))
    with writing(workplace.ledger.engine) as connection:
        # An hour later: parts replaced until now are too old for these databases to name.
        later = {"published_at": datetime.now(UTC) + timedelta(hours=1)}
        connection.execute(sa.update(PUBLISHED_DATABASES).values(later))
    rebuild_and_sweep()
    assert not first.exists()
    assert ask(published, "select count(*) from agent_events") == [(2,)]


def test_a_damaged_partition_leaves_the_database_of_before(
    workplace: Workplace, published: Path
) -> None:
    before = published.resolve()
    for path in paths_of(workplace.lake, AGENT_SESSIONS):
        path.write_bytes(b"not parquet")
    with pytest.raises(AnalyticsError, match="he previous database is still there"):
        publish_analytics(workplace.stores, NOW + timedelta(seconds=1))
    assert published.resolve() == before
    assert list((published.parent / "analytics_files").iterdir()) == [before]


def test_a_publish_that_fails_on_a_full_disk_leaves_no_file(
    workplace: Workplace, published: Path
) -> None:
    """The write-ahead log is a file of its own: each attempt would take more of the disk.

    The ledger, which notes who publishes, still fits.
    """
    before = published.resolve()
    with (
        files_up_to(1_000_000),
        pytest.raises(AnalyticsError, match="he previous database is still there"),
    ):
        publish_analytics(workplace.stores, NOW + timedelta(seconds=1))
    assert list((published.parent / "analytics_files").iterdir()) == [before]


def test_a_leftover_that_cannot_be_deleted_does_not_take_the_new_database(
    workplace: Workplace, published: Path
) -> None:
    leftover = published.parent / "analytics_files" / "analytics-old.duckdb"
    leftover.mkdir()
    os.utime(leftover, (0, 0))
    publish_analytics(workplace.stores, NOW + timedelta(seconds=1))
    assert ask(published, "select count(*) from agent_events") == [(2,)]


def test_the_database_of_before_outlives_what_a_killed_publish_left(
    workplace: Workplace, published: Path
) -> None:
    """A reader who has just followed the link still opens it."""
    before = published.resolve()
    half = before.with_name("analytics-20260603T120000-killed.duckdb")
    for left in (half, half.with_name(f"{half.name}.wal")):
        left.write_bytes(b"half")
    after = publish_analytics(workplace.stores, NOW + timedelta(seconds=1)).file
    assert set((published.parent / "analytics_files").iterdir()) == {before, after}


def test_a_lake_with_odd_characters_in_its_path_is_no_problem(tmp_path: Path) -> None:
    with open_workplace(tmp_path / "it's [the] *lake*") as workplace:
        build_from(workplace, work("s1"))
        link = publish_analytics(workplace.stores, NOW).link
        assert ask(link, "select count(*) from agent_events") == [(2,)]
        assert ask(link, "select count(*) from sessions") == [(1,)]


def test_no_progress_is_drawn_where_python_looks_interactive(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from evaluation_pipelines.reporting.analysts_database import _database\n"
        "with _database(Path(sys.argv[1])) as one:\n"
        "    print(one.sql(\"select current_setting('enable_progress_bar')\").fetchall())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.duckdb")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "[(False,)]\n"


def counts(workplace: Workplace) -> dict[str, int]:
    link = str(workplace.stores.settings.analytics_path)
    with duckdb.connect(link, read_only=True) as database:
        tables = ("agent_events", "agent_sessions", "session_performance", "session_evaluations")
        return {name: len(database.table(name).fetchall()) for name in tables}


def test_a_build_during_a_publish_does_not_mix_old_and_new_tables(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    source = publishing._files

    def build_between(lake: Lake, table: Table, **how: Any) -> analysts_database.Source:
        found = source(lake, table, **how)
        if table is AGENT_SESSIONS:
            workplace.land("b.jsonl", session("b"))
            workplace.ingest()
            # With the clock of the machine: to that of the tests, the old parts are days old.
            job = Build(workplace.stores)
            job.run(job.pending_dates())
        return found

    monkeypatch.setattr(publishing, "_files", build_between)
    publish_analytics(workplace.stores, NOW)
    assert counts(workplace) == {
        "agent_events": 2,
        "agent_sessions": 1,
        "session_performance": 1,
        "session_evaluations": 1,
    }


def test_the_parts_of_a_publish_that_was_killed_after_the_swap_are_kept(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    tidy = analysts_database._tidy

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(analysts_database, "_tidy", killed)
    with pytest.raises(KeyboardInterrupt):
        publish_analytics(workplace.stores, NOW)
    monkeypatch.setattr(analysts_database, "_tidy", tidy)
    workplace.land("b.jsonl", session("b"))
    workplace.ingest()
    workplace.build()
    sweep_superseded(workplace.stores, NOW + timedelta(days=400))
    assert counts(workplace)["agent_events"] == 2


def test_a_part_replaced_while_its_writer_waited_for_the_ledger_is_kept(
    workplace: Workplace,
) -> None:
    """The writer looks at the clock, waits for the lock, and a publish names the old part."""
    build_from(workplace, session("a"))
    (part,) = workplace.lake.parts(AGENT_EVENTS)
    looked_at_clock = datetime.now(UTC)
    publish_analytics(workplace.stores, NOW)
    new = workplace.lake.stage(
        workplace.lake.select(AGENT_EVENTS),
        AGENT_EVENTS,
        part.session_date,
        part.slot or "",
    )
    Manifest(workplace.ledger).switch([new], looked_at_clock)
    sweep_superseded(workplace.stores, NOW + timedelta(days=400))
    assert counts(workplace)["agent_events"] == 2


def test_the_database_of_before_stays_also_if_both_are_of_one_second(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_from(workplace, session("a"))
    # One of each two is of the name of the file, the other of the link.
    suffixes = iter(["ff", "x", "00", "x", "11", "x", "05", "x", "f0", "x"])
    monkeypatch.setattr(analysts_database, "_suffix", lambda: next(suffixes))
    before = None
    for _ in range(5):
        current = publish_analytics(workplace.stores, NOW).file
        assert before is None or before.exists()
        before = current
    assert len(list(current.parent.glob("*.duckdb"))) == 2


_OPENS = """
import os, sys, duckdb
opened, files = 0, set()
while opened < int(sys.argv[2]) or len(files) < 3:  # at any speed of publishing
    opened += 1
    files.add(os.readlink(sys.argv[1]))
    with duckdb.connect(sys.argv[1], read_only=True) as database:
        assert database.sql("select count(*) from sessions").fetchall() == [(1,)]
        assert database.sql("select count(*) from agent_events").fetchall() == [(2,)]
"""


@pytest.mark.parametrize("times", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_all_opens_beside_publishing_succeed(workplace: Workplace, times: int) -> None:
    build_from(workplace, session("a"))
    link = str(publish_analytics(workplace.stores, NOW).link)
    command = [sys.executable, "-c", _OPENS, link, str(times)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as opens:
        while opens.poll() is None:
            publish_analytics(workplace.stores, NOW)
        assert opens.stderr is not None
        assert (opens.returncode, opens.stderr.read()) == (0, b"")
