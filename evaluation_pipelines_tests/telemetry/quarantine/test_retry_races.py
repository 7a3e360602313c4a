"""Retries while an ingest or another retry runs, and after a failure before the commit."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Barrier, Thread

import polars as pl
import pytest

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import INGEST, LockLostError, LockTimeoutError, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.telemetry.quarantine.quarantined_lines import (
    LATER,
    SHORT,
    landed,
    long_line,
    retry,
    totals,
)
from evaluation_pipelines_tests.workplace import open_workplace


def test_nothing_is_retried_while_telemetry_is_read(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        with held(workplace.ledger, INGEST), pytest.raises(LockTimeoutError, match="lock ingest"):
            retry(workplace)
        assert retry(workplace).resolved == 1


def test_two_concurrent_retries_store_the_result_of_one(tmp_path: Path) -> None:
    content = b"".join(map(long_line, range(40)))
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("a.jsonl", content)
        workplace.land("b.jsonl", content.replace(b"xxx", b"yyy"))
        workplace.ingest()
    reports: list[RetryReport] = []
    barrier = Barrier(2)

    def one() -> None:
        with open_workplace(tmp_path, batch_bytes=5_000) as workplace:
            barrier.wait()
            reports.append(retry(workplace))

    threads = [Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_workplace(tmp_path) as workplace:
        rest = retry(workplace)
        assert sum(each.resolved for each in [*reports, rest]) == 80
        assert landed(workplace) == sorted([*range(40), *range(40)])
        assert totals(workplace).quarantined == 0


def test_a_retry_that_fails_before_its_commit_is_completed_by_the_next_one(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", long_line(0) + long_line(1))
        workplace.ingest()
    with open_workplace(tmp_path) as workplace:

        class LockLosingLake(Lake):
            """Lake that loses the lock before a part is written, and another ingest takes it."""

            def write_part(
                self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
            ) -> NewPart:
                lose_lock(workplace.ledger, INGEST)
                return super().write_part(frame, table, session_date, name)

        lake = LockLosingLake(workplace.lake.store, Manifest(workplace.ledger))
        stores = replace(workplace.stores, lake=lake)
        with pytest.raises(LockLostError, match="lock ingest is lost"):
            Retry(stores, lambda: LATER).run()
        assert landed(workplace) == []
        assert retry(workplace).resolved == 2
        assert landed(workplace) == [0, 1]
