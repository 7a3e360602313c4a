"""Ingest and builds whose ledger is in PostgreSQL: fenced writers, cut connections, shards."""

import gc
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from threading import Event, Thread

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.build.started_dates import StagingLake
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.storage.ledger.errors import LedgerUnavailableError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import Hold, LockLostError
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.storage.locks import cut_holders
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.lake_files import sorted_rows

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)

DAY = date(2026, 6, 1)
TABLES = (AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE)


def sessions(count: int, days: int) -> bytes:
    """Return the telemetry of some sessions, divided between days."""
    return b"".join(session(f"s{n}", n % days * DAY_S) for n in range(count))


def rows(workplace: Workplace) -> dict[str, pl.DataFrame]:
    """Return the rows of the main tables, in the order of their keys, without the file's id."""
    return {
        table.name: sorted_rows(workplace.lake, table).drop("source_file_id", strict=False)
        for table in TABLES
    }


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, pl.DataFrame]:
    """Rows of the same telemetry by a single build with a ledger in SQLite."""
    with open_workplace(tmp_path / "undisturbed") as workplace:
        workplace.land("logs.jsonl", sessions(12, 3))
        workplace.ingest()
        workplace.build()
        return rows(workplace)


def test_a_build_whose_connection_was_cut_is_refused_and_the_next_one_succeeds(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = StagingLake.commit
    with open_workplace(tmp_path, ledger_url=url) as workplace:

        def cut_first(lake: StagingLake, day: date, hold: Hold | None = None) -> None:
            cut_holders(url)
            commit(lake, day, hold)

        workplace.land("logs.jsonl", session("first"))
        workplace.ingest()
        with monkeypatch.context() as patched:
            patched.setattr(StagingLake, "commit", cut_first)
            (failed,) = workplace.build()
        assert isinstance(failed, DateFailed)
        assert failed.error.startswith(f"LockLostError: The lock build {DAY} is lost")
        assert workplace.sessions().is_empty()
        (built,) = Build(workplace.stores, clock=lambda: NOW + timedelta(days=1)).run([DAY])
        assert isinstance(built, DateBuilt)
        assert workplace.sessions().height == 1


def test_the_number_of_shards_may_change_in_the_middle_of_a_backfill(
    url: str, tmp_path: Path, undisturbed: dict[str, pl.DataFrame]
) -> None:
    days = [DAY + timedelta(days=n) for n in range(3)]
    with open_workplace(tmp_path, ledger_url=url, shards=4) as workplace:
        workplace.land("logs.jsonl", sessions(12, 3))
        workplace.ingest()
        Build(workplace.stores, clock=lambda: NOW).run(days[:2])
    with open_workplace(tmp_path, ledger_url=url, shards=3) as workplace:
        Build(workplace.stores, clock=lambda: NOW).run(days[1:])
        for name, expected in undisturbed.items():
            assert rows(workplace)[name].equals(expected)


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_cut_connections_lose_nothing_and_double_nothing(
    url: str,
    tmp_path: Path,
    undisturbed: dict[str, pl.DataFrame],
    rounds: int,
) -> None:
    """Steps end with a clear error, or fail a date; they are repeated until nothing is due."""
    cuts = 0
    for number in range(rounds):
        folder = tmp_path / str(number)
        with (
            fresh_ledger(url, number) as of_round,
            open_workplace(folder, ledger_url=of_round, batch_bytes=2_000) as workplace,
        ):
            workplace.land("logs.jsonl", sessions(12, 3))
            with cutting(of_round, number) as counted:
                for _ in range(4):
                    with suppress(LedgerUnavailableError, LockLostError):
                        workplace.ingest()
                    with suppress(LedgerUnavailableError, LockLostError):
                        workplace.build()
            cuts += len(counted)
            workplace.ingest()
            dates = [row.session_date for row in RebuildQueue(workplace.ledger).all()]
            built = Build(workplace.stores, clock=lambda: NOW + timedelta(days=2)).run(dates)
            assert {type(result) for result in built} == {DateBuilt}
            for name, expected in undisturbed.items():
                assert rows(workplace)[name].equals(expected)
            assert IngestBatches(workplace.ledger).totals().events == workplace.landed().height
    assert cuts > 0
    with warnings.catch_warnings():
        # The driver warns of connections that ended without being closed.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def fresh_ledger(url: str, number: int) -> Iterator[str]:
    """Yield the URL of a database for one round; the first one has the given."""
    if number == 0:
        yield url
        return
    given = sa.make_url(url)
    name = f"{given.database}_{number}"
    engine = sa.create_engine(given, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        yield given.set(database=name).render_as_string(hide_password=False)
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@contextmanager
def cutting(url: str, seed: int) -> Iterator[list[int]]:
    """End all connections to a database again and again; yield how many each time."""
    cut, stop, chance = list[int](), Event(), random.Random(seed)  # noqa: S311 - no secret
    engine = sa.create_engine(sa.make_url(url).set(database="postgres"))
    statement = sa.text(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = :name"
    )

    def work() -> None:
        with engine.connect() as connection:
            while not stop.wait(chance.uniform(0.05, 0.6)):
                number = connection.scalar(statement, {"name": sa.make_url(url).database})
                if number:
                    cut.append(number)

    thread = Thread(target=work)
    thread.start()
    try:
        yield cut
    finally:
        stop.set()
        thread.join()
        engine.dispose()
