"""Ingest with killed or concurrent processes, a full disk, or a locked ledger."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches, SourceFiles
from evaluation_pipelines_tests.telemetry.collector import FIRST_DAY_S, Collector, seeded
from evaluation_pipelines_tests.telemetry.pipeline_worker import (
    environment,
    sequential_workers,
    two_workers,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.lake_files import make_older, root_of

FEW_LINES_BYTES = 6_000
"""A batch of about three lines with records of about ten dates: ten parts per commit."""

# The command line program, as in a shell with `ulimit -f`; 0 is no limit.
INGEST = """
import resource, sys
from evaluation_pipelines.cli.program import main
if limit := int(sys.argv.pop()):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
"""


@pytest.mark.parametrize(
    ("seed", "rounds", "processes"),
    [
        (1, 5, 1),
        pytest.param(2, 100, 1, marks=pytest.mark.slow),
        pytest.param(5, 20, 2, marks=pytest.mark.slow),
    ],
)
def test_an_ingest_killed_at_any_time_reads_every_line_once(
    tmp_path: Path, seed: int, rounds: int, processes: int
) -> None:
    random, collector = seeded(seed), Collector(tmp_path / "landing", seed)
    orphans: set[Path] = set()
    kills_before_commit = 0
    settings = {"batch_bytes": FEW_LINES_BYTES, "ingest_processes": processes}
    if processes > 1:
        settings["parallel_from_bytes"] = 3 * FEW_LINES_BYTES
    with sequential_workers(rounds, "ingest", tmp_path, **settings) as workers:
        for number, worker in enumerate(workers):
            with growing(collector, lines=60):
                known = parts_on_disk(tmp_path)
                worker.go()
                if number % 4 == 0:  # ensures that it works, on a machine of any speed
                    wait_for_another_part(tmp_path, known)
                time.sleep(random.uniform(0, 0.02 if number % 4 == 0 else 0.3))
                worker.kill()
            with open_workplace(tmp_path) as workplace:
                found = orphan_parts(workplace)
            kills_before_commit += found > orphans
            orphans |= found
    assert kills_before_commit > 0  # after the first rename of a part
    collector.finish()
    with open_workplace(tmp_path) as workplace:
        Ingest(workplace.stores).run()
        assert_everything_is_stored_once(workplace, collector)
        assert orphan_parts(workplace) == orphans  # readers never see them
        # Two hours later, also by the clock of the disk, no process can use them.
        make_older(orphans, age_s=7_200)
        assert_everything_is_stored_once(workplace, collector, later=timedelta(hours=2))
        assert orphan_parts(workplace) == set()


def test_two_concurrent_ingests_have_the_result_of_one(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "landing", seed=3)
    with two_workers("ingest", tmp_path, batch_bytes=FEW_LINES_BYTES):
        collector.append(120, pause_s=0.003)
        collector.finish()
    with open_workplace(tmp_path) as workplace:
        Ingest(workplace.stores).run()  # each may have left the last lines to the other
        assert_everything_is_stored_once(workplace, collector)


@pytest.mark.parametrize(
    ("largest_file", "prompt_bytes", "complaint"),
    [
        # A million random hexadecimal digits need at least 500 kB.
        pytest.param(300_000, 1_000_000, "cannot write .*Check space", id="lake"),
        # The parts of these small batches have 20 kB each; each commit extends the ledger log.
        pytest.param(200_000, 10, "ledger.db failed .*Check the disk", id="ledger"),
    ],
)
def test_a_full_disk_is_a_clear_error_and_the_next_run_continues(
    tmp_path: Path, largest_file: int, prompt_bytes: int, complaint: str
) -> None:
    """A limit on the size of files simulates the full disk."""
    prompt = seeded(4).randbytes(prompt_bytes // 2).hex()
    with open_workplace(tmp_path) as workplace:
        workplace.land("a.jsonl", line(claude("user_prompt", FIRST_DAY_S, n=0)))
        Ingest(workplace.stores).run()
    with open_workplace(tmp_path) as workplace:
        for n in range(1, 12):
            content = line(claude("user_prompt", FIRST_DAY_S + n, n=n, prompt=prompt))
            workplace.land("a.jsonl", content, "ab")
    status, errors = ingest_in_terminal(tmp_path, largest_file)
    assert status == 1
    assert re.fullmatch(f"error: .*{complaint}.*\n", errors)
    with open_workplace(tmp_path) as workplace:
        landed = event_numbers(workplace.landed())
        assert landed == list(range(len(landed)))
        assert 1 <= len(landed) < 12
        assert not list((root_of(workplace.lake) / "_tmp").iterdir())
    assert ingest_in_terminal(tmp_path) == (0, "")
    with open_workplace(tmp_path) as workplace:
        assert event_numbers(workplace.landed()) == list(range(12))


def test_an_ingest_waits_for_a_ledger_locked_by_another_process(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace, ThreadPoolExecutor(1) as pool:
        workplace.land("a.jsonl", line(claude("user_prompt", FIRST_DAY_S, n=0)))
        with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            ingest = pool.submit(ingest_in_terminal, tmp_path)
            time.sleep(2)
            assert not ingest.done()
            assert workplace.landed().is_empty()
            other.execute("commit")
        assert ingest.result() == (0, "")
        assert event_numbers(workplace.landed()) == [0]


@contextmanager
def growing(collector: Collector, lines: int) -> Iterator[None]:
    """Append telemetry during the block."""
    with ThreadPoolExecutor(1) as pool:
        appended = pool.submit(collector.append, lines)
        yield
        appended.result()


def ingest_in_terminal(folder: Path, largest_file: int = 0) -> tuple[int, str]:
    """Run the command line program; return its exit code and its error output."""
    ended = subprocess.run(
        [sys.executable, "-c", INGEST, "ingest", str(largest_file)],
        env=environment(folder, batch_bytes=600),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


def wait_for_another_part(folder: Path, known: set[Path]) -> None:
    deadline = time.monotonic() + 60
    while parts_on_disk(folder) == known:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def parts_on_disk(folder: Path) -> set[Path]:
    return set((folder / "lake" / AGENT_EVENTS_LANDED.name).glob("*/*.parquet"))


def orphan_parts(workplace: Workplace) -> set[Path]:
    parts = parts_on_disk(workplace.settings.data_dir)
    days = {date.fromisoformat(path.parent.name.partition("=")[2]) for path in parts}
    manifest = Manifest(workplace.ledger)
    named = [path for day in days for path in manifest.known_paths(day)]
    return parts - {root_of(workplace.lake) / path for path in named}


def assert_everything_is_stored_once(
    workplace: Workplace, collector: Collector, later: timedelta = timedelta()
) -> None:
    """Assert that every byte and record was read once, also after a later build."""
    sizes = {path.stat().st_ino: path.stat().st_size for path in collector.root.rglob("*.jsonl")}
    files = SourceFiles(workplace.ledger).all()
    assert sorted((file.inode, file.position) for file in files) == sorted(sizes.items())
    assert IngestBatches(workplace.ledger).totals() == collector.written
    assert workplace.quarantined()["lines"].sum() == collector.written.quarantined

    days = [row.session_date for row in RebuildQueue(workplace.ledger).all()]
    build = Build(workplace.stores, [AGENT_EVENTS.name], clock=lambda: datetime.now(UTC) + later)
    assert {type(result) for result in build.run(days)} == {DateBuilt}
    landed, events = workplace.landed(), workplace.events()
    assert Counter(event_numbers(landed)) == collector.numbers
    assert sorted(event_numbers(events)) == sorted(collector.numbers)
    dates = landed.group_by("session_id").agg(pl.col("session_date").n_unique())
    assert set(dates["session_date"]) == {1}


def event_numbers(events: pl.DataFrame) -> list[int]:
    """Return the number of each event in landed order."""
    return [json.loads(text)["n"] for text in events["attributes"]]
