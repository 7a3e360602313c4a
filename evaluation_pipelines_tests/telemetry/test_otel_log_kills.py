"""Reads of ``otel_logs`` that are killed at any time, or run at the same time."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines_tests.telemetry.collector import FIRST_DAY_S, seeded
from evaluation_pipelines_tests.telemetry.otel_logs_table import create, export
from evaluation_pipelines_tests.telemetry.pipeline_steps import read_rows_and_ingest
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers, two_workers
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

STEP = "read_rows_and_ingest"


@pytest.fixture
def clickhouse(clickhouse_over_http_database: str) -> Iterator[ClickHouse]:
    """A database with an empty table."""
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as opened:
        create(opened)
        yield opened


def insert(clickhouse: ClickHouse, random: Random, numbers: range) -> None:
    """Insert a row per number, a second apart but up to a minute late; some are sent twice."""
    lines = [
        line(claude("user_prompt", FIRST_DAY_S + n - random.uniform(0, 60), prompt=f"prompt {n}"))
        for n in numbers
    ]
    export(clickhouse, [*lines, *random.sample(lines, 3)])


def assert_read_once(workplace: Workplace, rows: int) -> None:
    """Check that each row is one line of the landing folder, and one landed event."""
    expected = sorted(f"prompt {n}" for n in range(rows))
    paths = workplace.landing.root.rglob("*.jsonl")
    lines = [each for path in paths for each in path.read_bytes().splitlines()]
    assert len(lines) == len(set(lines)) == rows
    assert sorted(workplace.landed()["content"]) == expected
    assert list(workplace.landing.root.rglob(".*")) == []


def wait_for_another_file(landing: Path) -> None:
    known = len(list(landing.rglob("*.jsonl")))
    for _ in range(4000):
        if len(list(landing.rglob("*.jsonl"))) > known:
            return
        time.sleep(0.005)
    raise TimeoutError("no file was written")


@pytest.mark.slow
def test_a_read_killed_at_any_time_loses_and_doubles_no_row(
    tmp_path: Path, clickhouse: ClickHouse, clickhouse_over_http_database: str
) -> None:
    random, rounds, hidden = seeded(6), 12, 0
    dsn = {"otel_logs_dsn": clickhouse_over_http_database}
    with sequential_workers(rounds, STEP, tmp_path, **dsn) as workers:
        for number, worker in enumerate(workers):
            insert(clickhouse, random, range(100 * number, 100 * number + 100))
            worker.get_ready()
            worker.go()
            if number % 4:  # in the middle of the files, on a machine of any speed
                wait_for_another_file(tmp_path / "landing")
            time.sleep(random.uniform(0, 0.03))
            worker.kill()
            hidden += any((tmp_path / "landing").rglob(".*"))
    assert hidden > 0  # some kills came before a file had its name
    with open_workplace(tmp_path, **dsn) as workplace:
        read_rows_and_ingest(workplace.stores)
        assert_read_once(workplace, 100 * rounds)


@pytest.mark.slow
def test_two_reads_at_the_same_time_have_the_result_of_one(
    tmp_path: Path, clickhouse: ClickHouse, clickhouse_over_http_database: str
) -> None:
    random, dsn = seeded(7), {"otel_logs_dsn": clickhouse_over_http_database}
    with two_workers(STEP, tmp_path, **dsn):
        for number in range(10):
            insert(clickhouse, random, range(40 * number, 40 * number + 40))
    with open_workplace(tmp_path, **dsn) as workplace:
        read_rows_and_ingest(workplace.stores)
        assert_read_once(workplace, 400)
