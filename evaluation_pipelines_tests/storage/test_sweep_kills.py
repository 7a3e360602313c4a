"""Sweeps whose process is killed: no row is lost, and the next sweep finishes what is left."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.build import DAILY_TABLES, Build
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, AGENT_SESSIONS, EVENT_TEXTS_LANDED
from evaluation_pipelines.storage import compaction
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import PARTS
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_steps import sweep
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.lake_files import root_of

DATES = 8
TABLES = (*(table.table for table in DAILY_TABLES), AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED)


@pytest.mark.parametrize(("seed", "rounds"), [(1, 1), pytest.param(2, 100, marks=pytest.mark.slow)])
def test_a_sweep_killed_at_any_moment_loses_nothing_and_is_finished_by_the_next_one(
    tmp_path: Path, seed: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = seeded(seed)
    interrupted = committed = 0
    with (
        open_workplace(tmp_path) as workplace,
        sequential_workers(rounds, "sweep", tmp_path) as workers,
    ):
        lines = (session(f"s{number}", -number * DAY_S) for number in range(DATES))
        workplace.land("logs.jsonl", b"".join(lines))
        workplace.ingest()
        workplace.build()
        expected = rows_of(workplace)
        for number, worker in enumerate(workers):
            Build(workplace.stores).run(workplace.lake.partitions(AGENT_SESSIONS))
            leave_orphan(workplace)
            superseded = named_paths(workplace) - current_paths(workplace)
            worker.go()
            wait_for_a_deletion(root_of(workplace.lake), superseded)
            time.sleep(random.uniform(0, 0.01 if number % 2 == 0 else 0.3))
            worker.kill()
            # The ledger forgets all of them in one transaction.
            left = superseded & named_paths(workplace)
            assert left in (superseded, set())
            interrupted += left == superseded
            committed += left == set()
            assert current_paths(workplace) <= files_of(workplace)
            assert rows_of(workplace) == expected
        # Some after the first deletion and before the commit, some after the commit.
        assert min(interrupted, committed) > 0 or rounds < 100
        monkeypatch.setattr(compaction, "GRACE_PERIOD", timedelta())
        sweep(workplace.stores)
        assert files_of(workplace) == named_paths(workplace) == current_paths(workplace)
        assert rows_of(workplace) == expected


def leave_orphan(workplace: Workplace) -> None:
    """Write a part that the manifest never names, like a build that is killed."""
    day = workplace.lake.partitions(AGENT_SESSIONS)[0]
    workplace.lake.stage(AGENT_SESSIONS.no_rows, AGENT_SESSIONS, day, "orphan")


def rows_of(workplace: Workplace) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows by table, without the times at which they were built."""
    tables = {table.name: table for table in TABLES}
    rows: dict[str, list[tuple[object, ...]]] = {}
    for part in Manifest(workplace.ledger).all_tables():
        frame = workplace.lake.read_part(part, tables[part.table_name])
        rows.setdefault(part.table_name, []).extend(frame.rows())
    return rows


def current_paths(workplace: Workplace) -> set[str]:
    """Return the paths of the parts that count."""
    return {part.path for part in Manifest(workplace.ledger).all_tables()}


def named_paths(workplace: Workplace) -> set[str]:
    """Return all paths that the manifest names."""
    with reading(workplace.ledger.engine) as connection:
        return set(connection.scalars(PARTS.select().with_only_columns(PARTS.c.path)))


def files_of(workplace: Workplace) -> set[str]:
    """Return the Parquet files of the lake by their paths in it."""
    root = root_of(workplace.lake)
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}


def wait_for_a_deletion(root: Path, superseded: set[str]) -> None:
    """Wait until one of some files does not exist."""
    deadline = time.monotonic() + 60
    first = root / min(superseded)
    while first.exists():
        assert time.monotonic() < deadline
