"""Publishes and sweeps whose process is killed: what is published and current can be read."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from evaluation_pipelines.build import DAILY_TABLES
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_steps import rebuild_publish_and_sweep
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.lake_files import root_of

SESSIONS = 12


@pytest.mark.parametrize(("seed", "rounds"), [(1, 2), pytest.param(2, 100, marks=pytest.mark.slow)])
def test_a_publish_or_a_sweep_killed_at_any_moment_leaves_all_rows(
    tmp_path: Path, seed: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = seeded(seed)
    step = "rebuild_publish_and_sweep"
    swept = published = half_written = 0
    with (
        open_workplace(tmp_path, shards=2) as workplace,
        sequential_workers(rounds, step, tmp_path, shards=2) as workers,
    ):
        lines = (session(f"s{number}", number % 3 * DAY_S) for number in range(SESSIONS))
        workplace.land("logs.jsonl", b"".join(lines))
        workplace.ingest()
        workplace.build()
        link = workplace.stores.settings.analytics_path
        for number, worker in enumerate(workers):
            before = link.resolve(), files_of(workplace), databases(link)
            worker.go()
            if number % 2 == 0:  # once it has published, whatever the speed of the machine
                wait_for_change(Path.resolve, link, before[0])
            elif number % 4 == 1:  # while it writes the database
                wait_for_change(databases, link, before[2])
            time.sleep(random.uniform(0, 1.5 if number % 4 == 3 else 0.05))
            worker.kill()
            published += link.resolve() != before[0]
            half_written += link.resolve() == before[0] and databases(link) != before[2]
            swept += not before[1] <= files_of(workplace)
            assert_all_rows_are_there(workplace, link)
        assert published >= rounds // 2
        assert swept > 0
        assert half_written > 0 or rounds < 100  # between the first byte and the swap
        monkeypatch.setattr("evaluation_pipelines.storage.compaction.GRACE_PERIOD", None)
        for _ in range(2):  # the first one still keeps the files of the database before
            rebuild_publish_and_sweep(workplace.stores)
        assert_all_rows_are_there(workplace, link)
        assert len(list(link.parent.glob("analytics_files/*"))) == 2


def assert_all_rows_are_there(workplace: Workplace, link: Path) -> None:
    """Assert that all current parts can be read, and all views of the published database."""
    for daily in DAILY_TABLES:
        for part in Manifest(workplace.ledger).all_current(daily.table.name):
            assert workplace.lake.read_part(part, daily.table).height == part.row_count
    assert workplace.sessions().height == workplace.performance().height == SESSIONS
    if link.exists():
        with closing(duckdb.connect(str(link), read_only=True)) as database:
            (events,) = database.sql("select count(*) from agent_events").fetchall()
            (sessions,) = database.sql("select count(*) from sessions").fetchall()
        assert (events, sessions) == ((2 * SESSIONS,), (SESSIONS,))


def wait_for_change(look: Callable[[Path], object], link: Path, before: object) -> None:
    deadline = time.monotonic() + 60
    while look(link) == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def databases(link: Path) -> set[Path]:
    return set(link.parent.glob("analytics_files/*.duckdb"))


def files_of(workplace: Workplace) -> set[Path]:
    return set(root_of(workplace.lake).glob("*/session_date=*/*.parquet"))
