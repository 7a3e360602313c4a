"""Builds whose process is killed, while another thread reads the tables."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.telemetry.collector import Collector, seeded
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers, two_workers
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world.lake_files import make_older, root_of

MERGE_ALWAYS = {"compact_parts": 2, "shards": 3}


@pytest.mark.parametrize(("seed", "rounds"), [(1, 4), pytest.param(2, 100, marks=pytest.mark.slow)])
def test_a_build_killed_at_any_moment_is_completed_by_the_next_one(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    random = seeded(seed)
    # Sessions end on the day they begin: their session date does not depend on when they are read.
    collector = Collector(tmp_path / "landing", seed, dates=4, hours=12)
    interrupted = before_commit = 0
    orphans: set[Path] = set()
    with (
        open_workplace(tmp_path, batch_bytes=6_000) as workplace,
        reading(workplace),
        sequential_workers(rounds, "build", tmp_path, **MERGE_ALWAYS) as workers,
    ):
        for number, worker in enumerate(workers):
            collector.append(20)
            Ingest(workplace.stores).run()
            known = files_of(workplace)
            worker.go()
            if number % 2 == 0:  # once it writes, whatever the speed of the machine
                wait_for_other_files(workplace, known)
            time.sleep(random.uniform(0, 0.8) if number % 2 else 0.0)
            worker.kill()
            interrupted += len(RebuildQueue(workplace.ledger).pending(datetime.now(UTC))) > 0
            found = unnamed_files(workplace)
            before_commit += not found <= orphans
            orphans |= found
    assert interrupted >= rounds // 2
    assert before_commit > 0  # after the first part was written, before the switch to it
    collector.finish()
    make_older(orphans, age_s=7_200)
    with open_workplace(tmp_path, **MERGE_ALWAYS) as workplace:
        finish(workplace, later=timedelta(hours=2))
        tables = tables_of(workplace)
        assert unnamed_files(workplace) == set()
    assert_same_as_undisturbed_build(tables, tmp_path)


@pytest.mark.slow
def test_two_concurrent_builds_have_the_same_result_as_one(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "landing", 3, dates=4, hours=12)
    with (
        open_workplace(tmp_path, batch_bytes=6_000) as workplace,
        two_workers("build", tmp_path, **MERGE_ALWAYS),
    ):
        for _ in range(5):
            collector.append(20)
            Ingest(workplace.stores).run()
    collector.finish()
    with open_workplace(tmp_path, **MERGE_ALWAYS) as workplace:
        finish(workplace)
        tables = tables_of(workplace)
    assert_same_as_undisturbed_build(tables, tmp_path)


def assert_same_as_undisturbed_build(tables: dict[str, pl.DataFrame], folder: Path) -> None:
    """Assert that one ingest and one build of the landing folder produce the same rows."""
    with open_workplace(folder / "other", landing_dir=folder / "landing") as undisturbed:
        finish(undisturbed)
        for name, expected in tables_of(undisturbed).items():
            assert_frame_equal(tables[name], expected)


@contextmanager
def reading(workplace: Workplace) -> Iterator[None]:
    """Read all tables repeatedly in a thread, which must never see an incomplete file."""
    stop = Event()

    def read() -> int:
        times = 0
        while not stop.is_set():
            sessions = workplace.sessions()
            assert not sessions.select(AGENT_SESSIONS.key).is_duplicated().any()
            manifest, table = Manifest(workplace.ledger), AGENT_EVENTS_LANDED
            for date in manifest.dates(table.name):
                for part in manifest.current(table.name, date.session_date):
                    assert workplace.lake.read_part(part, table).height == part.row_count
            times += 1
            stop.wait(0.01)
        return times

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            yield
        finally:
            stop.set()
        assert reader.result() > 0


def finish(workplace: Workplace, later: timedelta = timedelta()) -> None:
    """Ingest the remaining lines, and build all dates at the current time plus ``later``."""
    Ingest(workplace.stores).run()
    build = Build(workplace.stores, clock=lambda: datetime.now(UTC) + later)
    queued = RebuildQueue(workplace.ledger).all()
    assert [date.last_error for date in queued] == [None] * len(queued)
    built = build.run(date.session_date for date in queued)
    assert {type(result) for result in built} == {DateBuilt}


def tables_of(workplace: Workplace) -> dict[str, pl.DataFrame]:
    """Return all rows by table; landed rows are sorted, since merging changes their order."""
    landed = workplace.landed().sort("source_file_id", "source_offset", "event_id")
    return {
        AGENT_EVENTS_LANDED.name: landed,
        AGENT_EVENTS.name: workplace.events().sort("session_date", "event_id"),
        AGENT_SESSIONS.name: workplace.sessions().sort(AGENT_SESSIONS.key),
        SESSION_PERFORMANCE.name: workplace.performance().sort(SESSION_PERFORMANCE.key),
    }


def wait_for_other_files(workplace: Workplace, known: set[Path]) -> None:
    deadline = time.monotonic() + 60
    while files_of(workplace) == known:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def files_of(workplace: Workplace) -> set[Path]:
    """Return all files of the lake, including files that are being written."""
    return set(root_of(workplace.lake).rglob("*.parquet"))


def unnamed_files(workplace: Workplace) -> set[Path]:
    """Return the files left by kills: parts that no manifest names, and incomplete files."""
    manifest, lake = Manifest(workplace.ledger), workplace.lake
    days = [date.session_date for date in manifest.dates(AGENT_EVENTS_LANDED.name)]
    named = {root_of(lake) / path for day in days for path in manifest.known_paths(day)}
    parts = set(root_of(lake).glob("*/session_date=*/*.parquet"))
    return parts - named | set((root_of(lake) / "_tmp").iterdir())
