"""Build: a date that fails keeps its tables, is retried and parked, and stops no other date."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

import polars as pl
import pytest

from evaluation_pipelines.build import DAILY_TABLES, DateBuilt, DateFailed
from evaluation_pipelines.build.shard_build import StagingLake
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
)
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition, make_partitions
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines_tests.build.two_dates import FIRST, SECOND, build, only_part
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session


def test_a_damaged_part_fails_its_date_with_its_path_and_the_next_date_is_built(
    two_dates: Workplace,
) -> None:
    damaged = only_part(two_dates, FIRST)
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    failed, second = two_dates.build()
    assert isinstance(second, DateBuilt)
    assert isinstance(failed, DateFailed)
    assert (failed.session_date, failed.table, failed.attempts) == (FIRST, "agent_events", 1)
    assert str(damaged) in failed.error
    assert two_dates.lake.partitions(AGENT_EVENTS) == [SECOND]

    # It is retried after a minute, and not before.
    assert build(two_dates) == []
    damaged.write_bytes(content)
    (built,) = build(two_dates, later=timedelta(minutes=1))
    assert isinstance(built, DateBuilt)
    assert RebuildQueue(two_dates.ledger).pending(NOW + timedelta(days=1)) == []


def test_a_panic_of_polars_fails_its_date_alone(two_dates: Workplace) -> None:
    """It is no Exception, so a date with a damaged file stopped all others of its run."""
    two_dates.build()
    sessions = next(each for each in DAILY_TABLES if each.table is AGENT_SESSIONS)

    def make(batch: Batch) -> Mapping[date, BuiltPartition]:
        if FIRST in batch.days:
            raise pl.exceptions.PanicException("index out of bounds")
        return sessions.make(batch)

    batch = Batch(two_dates.stores, (FIRST, SECOND), NOW)
    made = dict(make_partitions(replace(sessions, make=make), batch))
    assert repr(made[FIRST]) == "RuntimeError('Polars panicked: index out of bounds')"
    assert isinstance(made[SECOND], BuiltPartition)


def test_a_date_that_fails_keeps_the_tables_it_had(two_dates: Workplace) -> None:
    two_dates.build()
    before = two_dates.sessions()
    only_part(two_dates, FIRST).write_bytes(b"not parquet")
    (failed,) = build(two_dates, FIRST)
    assert isinstance(failed, DateFailed)
    assert two_dates.sessions().equals(before)


def test_a_lock_that_is_lost_counts_no_attempt(
    two_dates: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the server of the ledger restarts: dates of a build would be parked for nothing."""
    commit = StagingLake.commit

    def lose_first(lake: StagingLake, day: date, hold: Hold | None) -> None:
        lose_lock(two_dates.ledger, f"build {day}")
        commit(lake, day, hold)

    with monkeypatch.context() as patched:
        patched.setattr(StagingLake, "commit", lose_first)
        failed = two_dates.build()
    assert all(isinstance(each, DateFailed) and "is lost" in each.error for each in failed)
    queue = RebuildQueue(two_dates.ledger)
    assert [each.attempts for each in queue.pending(NOW)] == [0, 0]
    assert [type(each) for each in two_dates.build()] == [DateBuilt, DateBuilt]


def test_a_date_is_parked_after_its_fourth_failure_and_new_telemetry_revives_it(
    two_dates: Workplace,
) -> None:
    damaged = only_part(two_dates, FIRST)
    content = damaged.read_bytes()
    damaged.write_bytes(b"not parquet")
    two_dates.build()
    # Retried after 1, 2 and 4 minutes.
    for minutes, parked in ((1, False), (3, False), (7, True)):
        assert build(two_dates, later=timedelta(minutes=minutes, seconds=-1)) == []
        (failed,) = build(two_dates, later=timedelta(minutes=minutes))
        assert isinstance(failed, DateFailed)
        assert failed.parked is parked
    assert build(two_dates, later=timedelta(days=9)) == []
    damaged.write_bytes(content)
    two_dates.land("logs.jsonl", session("late", 60), "ab")
    two_dates.ingest()
    (built,) = build(two_dates)
    assert isinstance(built, DateBuilt)
    assert built.rows["agent_sessions"] == 2
