"""Ingest when its process is killed, is not alone, or finds the disk full or the ledger locked."""

import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
import pytest

from evaluation_pipelines.domain.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.build import Build, DateFailed
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.stages.collector import FIRST_DAY_S, Collector
from evaluation_pipelines_tests.stages.pipeline_worker import Worker, environment, started_ahead
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

FEW_LINES_BYTES = 6_000
"""A batch of about three lines, whose records belong to some ten dates: ten parts a commit."""

# The terminal program, as from a shell with `ulimit -f`.
INGEST_WITH_LARGEST_FILE = """
import resource, sys
from evaluation_pipelines.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop()),) * 2)
main()
"""


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 20), pytest.param(2, 100, marks=pytest.mark.slow)]
)
def test_an_ingest_killed_at_any_moment_loses_nothing_and_doubles_nothing(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    random, collector = Random(seed), Collector(tmp_path / "landing", Random(seed))
    workers = started_ahead(rounds, "ingest", tmp_path, batch_bytes=FEW_LINES_BYTES)
    orphans: set[Path] = set()
    kills_before_commit = 0
    for number, worker in enumerate(workers):
        with growing(collector, 60):
            before = parts_on_disk(tmp_path)
            worker.go()
            if number % 4 == 0:  # at work for sure, on a machine of any speed
                wait_for(lambda before=before: parts_on_disk(tmp_path) > before)
            time.sleep(random.uniform(0, 0.02 if number % 4 == 0 else 0.3))
            worker.kill()
        with open_workplace(tmp_path) as workplace:
            found = unnamed_parts(workplace)
        kills_before_commit += found > orphans
        orphans |= found
    # Kills between the first rename of a part and the commit did happen.
    assert kills_before_commit >= 1
    collector.finish()
    with open_workplace(tmp_path) as workplace:
        Ingest(workplace.stores).run()
        assert unnamed_parts(workplace) == orphans
        assert_everything_is_there_once(workplace, collector)
        # An hour and more later nobody can be at work on what no manifest names.
        assert_everything_is_there_once(workplace, collector, later=timedelta(hours=2))
        assert unnamed_parts(workplace) == set()


def test_two_ingests_at_once_read_what_one_would(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "landing", Random(3))
    workers = [Worker("ingest", tmp_path, batch_bytes=FEW_LINES_BYTES) for _ in range(2)]
    for worker in workers:
        worker.go()
    collector.append(400, pause_s=0.003)
    collector.finish()
    for worker in workers:
        worker.stop()
    with open_workplace(tmp_path) as workplace:
        Ingest(workplace.stores).run()  # what one left to the other, and that one was past already
        assert_everything_is_there_once(workplace, collector)


@pytest.mark.parametrize(
    ("largest_file", "content_bytes", "complaint"),
    [
        # A part of 1 MB of random hexadecimal digits does not get smaller than 500 kB.
        pytest.param(300_000, 1_000_000, "cannot write .*landed.*check space", id="lake"),
        # Parts of small batches have some 15 kB each, the ledger's log grows by 40 kB a commit.
        pytest.param(150_000, 10, "ledger.db failed .*Check the disk and its quota", id="ledger"),
    ],
)
def test_a_full_disk_is_a_clear_error_and_the_next_run_goes_on(
    tmp_path: Path, largest_file: int, content_bytes: int, complaint: str
) -> None:
    """A limit on the size of files stands for the disk: both refuse to write."""
    digits = Random(4).randbytes(content_bytes // 2).hex()
    records = [claude("user_prompt", FIRST_DAY_S + n, n=n, prompt=digits) for n in range(40)]
    with open_workplace(tmp_path, batch_bytes=600) as workplace:
        workplace.land("a.jsonl", line(records[0] | claude("user_prompt", FIRST_DAY_S, n=0)))
        Ingest(workplace.stores).run()
        workplace.land("a.jsonl", b"".join(map(line, records[1:])), "ab")
        limited = [sys.executable, "-c", INGEST_WITH_LARGEST_FILE, "ingest", str(largest_file)]
        ended = run(limited, tmp_path)
        assert ended.returncode == 1
        assert len(ended.stderr.splitlines()) == 1
        assert ended.stderr.startswith("error: ")
        pytest.importorskip("re").search(complaint, ended.stderr)
        assert not list((workplace.lake.root / "_tmp").iterdir())
        before = event_numbers(workplace.landed())
        assert before == list(range(len(before)))
        Ingest(workplace.stores).run()
        assert event_numbers(workplace.landed()) == list(range(40))
