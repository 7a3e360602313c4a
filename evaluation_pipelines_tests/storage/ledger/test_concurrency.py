import gc
import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import lock_for_budget, reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError, LedgerUnavailableError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue, touch
from evaluation_pipelines.storage.ledger.tables.telemetry import TOUCHED_DATES
from evaluation_pipelines.storage.parts import PartDate
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatches,
    SessionIndex,
    SourceFiles,
)
from evaluation_pipelines_tests.storage.ledger.workers import (
    commit_own_file,
    commit_shared_file,
    open_at_once,
)
from evaluation_pipelines_tests.world.ledger import (
    LANDED,
    MARCH_1,
    NOON,
    add_file,
)

SPAWN = multiprocessing.get_context("spawn")

EXECUTORS: list[Callable[[], Executor]] = [
    partial(ThreadPoolExecutor, 2),
    partial(ProcessPoolExecutor, 2, mp_context=SPAWN),
]
both = pytest.mark.parametrize("two", EXECUTORS, ids=["threads", "processes"])


def test_processes_that_open_a_fresh_ledger_at_once_all_succeed(url: str) -> None:
    count = 4
    start, results = SPAWN.Barrier(count), SPAWN.Queue()
    processes = [
        SPAWN.Process(target=open_at_once, args=(url, start, results)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [[]] * count
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_threads_that_open_fresh_ledgers_at_once_all_succeed(tmp_path: Path) -> None:
    # Two ledgers: alembic itself can run one migration per process only.
    urls = [f"sqlite:///{tmp_path / name}" for name in ("a.db", "b.db")] * 4
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(open_ledger, urls))
    for ledger in ledgers:
        assert SourceFiles(ledger).all() == []
        ledger.close()


@both
def test_two_writers_of_different_files_wait_for_each_other(
    url: str, two: Callable[[], Executor]
) -> None:
    open_ledger(url).close()
    with two() as pool:
        list(pool.map(commit_own_file, [url, url], ["f1", "f2"], [25, 25]))

    ledger = open_ledger(url)
    # 2 writers x 25 batches, each with 1 part of 10 rows and 1000 bytes
    assert Manifest(ledger).dates(LANDED) == [PartDate(MARCH_1, 50, 500, 50_000)]
    assert IngestBatches(ledger).totals() == IngestCounts(bytes=500, lines=50, events=100)
    assert IngestBatches(ledger).names() == {("codex", "noise"): 50}
    (touched,) = RebuildQueue(ledger).pending(NOON)
    assert touched.version == 50
    shared = [f"s{number}" for number in range(25)]
    assert len(SessionIndex(ledger).dates_by_session_id(shared)) == 25
    assert [file.position for file in SourceFiles(ledger).all()] == [250, 250]
    ledger.close()


@both
def test_two_writers_of_the_same_bytes_count_them_once(
    url: str, ledger: Ledger, two: Callable[[], Executor]
) -> None:
    add_file(ledger)
    with two() as pool:
        won = list(pool.map(commit_shared_file, [url, url], [30, 30]))

    assert sum(won) == 30
    assert IngestBatches(ledger).totals() == IngestCounts(events=30)
    assert SourceFiles(ledger).get("f1").position == 30


def test_a_reader_sees_one_moment_and_is_not_blocked(ledger: Ledger) -> None:
    count = sa.select(sa.func.count()).select_from(TOUCHED_DATES)
    with reading(ledger.engine) as connection:
        assert connection.scalar(count) == 0
        with writing(ledger.engine) as other:
            touch(other, {MARCH_1}, NOON)
        assert connection.scalar(count) == 0
    with reading(ledger.engine) as connection:
        assert connection.scalar(count) == 1


BOUND = "the id of a session"


def cut_in_a_transaction(ledger: Ledger) -> None:
    with writing(ledger.engine) as one, ledger.engine.connect() as other:
        pid = one.scalar(sa.text("select pg_backend_pid()"))
        other.execute(sa.text("select pg_terminate_backend(:pid)"), {"pid": pid})
        one.execute(sa.text("select :value"), {"value": BOUND})


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_that_is_cut_is_said_in_one_line_and_the_next_one_works(
    ledger: Ledger,
) -> None:
    with pytest.raises(LedgerUnavailableError, match="the connection failed") as raised:
        cut_in_a_transaction(ledger)
    assert "\n" not in str(raised.value)
    assert BOUND not in "".join(traceback.format_exception(raised.value))
    with reading(ledger.engine) as again:
        assert again.scalar(sa.text("select 1")) == 1
    del raised
    with warnings.catch_warnings():
        # The driver warns of a connection that ended without being closed.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("away_s", [1.5, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_ledger_that_is_away_is_waited_for(
    ledger: Ledger, url: str, caplog: pytest.LogCaptureFixture, away_s: float, *, is_open: bool
) -> None:
    """By who has used it before, and by a worker of a build that has."""
    name = sa.make_url(url).database
    server = sa.create_engine(
        sa.make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT"
    )
    end = sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name")
    with server.connect() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(end, {"name": name})

        def come_back() -> None:
            sleep(away_s)
            connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))

        with ThreadPoolExecutor(1) as pool:
            back = pool.submit(come_back)
            used = ledger if is_open else open_ledger(url, create=False, is_known=True)
            with reading(used.engine) as again:
                assert back.done()
                assert again.scalar(sa.text("select 1")) == 1
            used.close()
    server.dispose()
    (message,) = (message for message in caplog.messages if "cannot be reached" in message)
    assert message.endswith("waiting up to 120 s")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_ledger_that_stays_away_is_an_error_and_so_is_one_that_never_answered(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.storage.ledger.engine.AWAY_S", 0.1)
    name = sa.make_url(url).database
    server = sa.create_engine(
        sa.make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT"
    )
    end = sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name")
    with server.connect() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(end, {"name": name})
        for use in (lambda: reading(ledger.engine).__enter__(), lambda: open_ledger(url)):
            with pytest.raises(LedgerUnavailableError, match="the connection failed"):
                use()
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    server.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lock_that_another_keeps_is_no_cut_connection_with_either_driver(
    url: str, driver: str
) -> None:
    pytest.importorskip(driver)
    named = sa.make_url(url).set(drivername=f"postgresql+{driver}")
    ledger = open_ledger(named.render_as_string(hide_password=False), lock_timeout=0.1)
    with writing(ledger.engine) as one:
        lock_for_budget(one)
        with (
            pytest.raises(LedgerLockedError, match="Find the run that hangs"),
            writing(ledger.engine) as other,
        ):
            lock_for_budget(other)
    ledger.close()
