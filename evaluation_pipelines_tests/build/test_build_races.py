"""Concurrent builds of one date: older content is never published last."""

import os
import shutil
import time
from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path
from threading import Thread

import pytest

from evaluation_pipelines.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.build.shard_build import StagingLake
from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import BUILD, ERASE, Hold, held, holders
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session

DAY = date(2026, 6, 1)


def test_a_second_build_waits_for_the_one_that_has_started(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    second = Thread(target=workplace.build)
    switch = StagingLake.switch

    def land_more(lake: StagingLake, parts: Collection[NewPart], hold: Hold | None = None) -> None:
        """Land more events and start a second build when the first one has its events."""
        if not second.ident and any(part.table_name == AGENT_EVENTS.name for part in parts):
            workplace.land("logs.jsonl", session("second"), "ab")
            workplace.ingest()
            second.start()
            second.join(0.5)  # enough time to overtake, if it could
        switch(lake, parts, hold)

    monkeypatch.setattr(StagingLake, "switch", land_more)
    (first,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])
    second.join()
    assert isinstance(first, DateBuilt)
    assert first.rows["agent_events"] == 2
    assert workplace.events()["session_id"].unique().sort().to_list() == ["first", "second"]
    assert workplace.sessions().height == 2
    assert RebuildQueue(workplace.ledger).pending(NOW) == []


def test_whoever_builds_within_another_lock_shows_progress_of_both(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as ``forget``, which holds ``erase`` while dates are built again."""
    monkeypatch.setattr(lock, "NOTED_EVERY_S", 0)
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    with held(workplace.ledger, ERASE):
        (begun,) = holders(workplace.ledger)
        workplace.build()
        (after,) = holders(workplace.ledger)
    assert after.last_progress_at > begun.last_progress_at == begun.since


def test_a_date_that_another_build_finishes_meanwhile_is_not_built_again(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    waiting, results = Build(workplace.stores, clock=lambda: NOW, only_due=True), list[object]()
    dates = waiting.pending_dates()
    with held(workplace.ledger, f"{BUILD}{DAY}"):
        second = Thread(target=lambda: results.append(waiting.run(dates)))
        second.start()
        second.join(0.5)  # enough time to reach the lock
        (queued,) = RebuildQueue(workplace.ledger).pending(NOW)
        RebuildQueue(workplace.ledger).mark_built(DAY, queued.version)  # as the other one does
    second.join()
    assert results == [[]]
    with held(workplace.ledger, f"{BUILD}{DAY}"):  # it was released
        pass
    (built,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])  # asked for by name: always
    assert isinstance(built, DateBuilt)


def test_a_date_that_another_build_holds_for_too_long_fails_and_is_retried(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        workplace.land("logs.jsonl", session("first"))
        workplace.ingest()
        with held(workplace.ledger, f"{BUILD}{DAY}"):
            (failed,) = workplace.build()
        assert isinstance(failed, DateFailed)
        assert failed.error.startswith(f"LockTimeoutError: process {os.getpid()} on ")
        assert failed.attempts == 1
        (built,) = Build(workplace.stores, clock=lambda: NOW).run([DAY])
        assert isinstance(built, DateBuilt)


def test_a_ledger_without_locks_fails_the_date_with_the_path(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", session("first"))
    workplace.ingest()
    locks = workplace.settings.data_dir / "ledger.db.locks"
    shutil.rmtree(locks)
    locks.write_text("a file where the folder should be")
    (failed,) = workplace.build()
    assert isinstance(failed, DateFailed)
    assert str(locks) in failed.error


def test_two_builds_with_overlapping_dates_do_not_deadlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One builds the dates 1 2 | 3 4, the other 2 3: each could hold what the other waits for."""
    days = [DAY + timedelta(days=number) for number in range(4)]
    monkeypatch.setattr("evaluation_pipelines.build.started_dates._MAX_BATCH_DATES", 2)
    monkeypatch.setattr("evaluation_pipelines.engine.local.core_count", lambda: 2)
    results: list[DateBuilt | DateFailed] = []
    with open_workplace(tmp_path, lock_timeout_seconds=20) as workplace:
        workplace.land("logs.jsonl", b"".join(session(f"s{n}", n * DAY_S) for n in range(4)))
        workplace.ingest()

        def build(dates: list[date]) -> None:
            results.extend(Build(workplace.stores, clock=lambda: NOW).run(dates))

        threads = [Thread(target=build, args=(each,)) for each in (days, days[1:3])]
        with held(workplace.ledger, f"{BUILD}{DAY}"):
            for thread in threads:
                thread.start()
                time.sleep(0.5)  # the first one waits for its first date
        for thread in threads:
            thread.join()
    assert [each for each in results if isinstance(each, DateFailed)] == []
    assert len(results) == 6
