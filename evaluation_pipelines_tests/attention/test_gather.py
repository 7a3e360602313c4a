"""What is gathered of locks and alerts."""

import os
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event
from time import monotonic

import pytest
import time_machine

from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.attention.gather import gather
from evaluation_pipelines.engine.work import in_order
from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.workplace import Workplace


def test_a_process_that_holds_a_lock_in_silence_is_named(workplace: Workplace) -> None:
    with held(workplace.ledger, "ingest"):
        now = gather(workplace.stores, datetime.now(UTC))
        later = gather(workplace.stores, datetime.now(UTC) + timedelta(minutes=6))
    silent = [item.seen for item in attention(later) if "holds the lock" in item.seen]
    named = f"process {os.getpid()} on {socket.gethostname()} holds the lock ingest"
    assert [each.partition(". ")[0] for each in silent] == [named]
    assert not any("holds the lock" in item.seen for item in attention(now))
    free = attention(gather(workplace.stores, datetime.now(UTC) + timedelta(minutes=6)))
    assert not any("holds the lock" in item.seen for item in free)


def test_a_process_with_results_is_not_named_and_one_without_is(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve minutes pass; the second result arrives after six, before the first."""
    monkeypatch.setattr(lock, "NOTED_EVERY_S", 0)
    results: list[Future[int]] = [Future(), Future()]
    began, is_held = datetime.now(UTC), Event()

    def work() -> None:
        with held(workplace.ledger, "build 2026-06-01"):
            is_held.set()
            assert [*in_order(results.__getitem__, range(2), 2, lambda _: False)]

    def is_named(minutes: int) -> bool:
        facts = gather(workplace.stores, began + timedelta(minutes=minutes))
        return any("holds the lock" in item.seen for item in attention(facts))

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        assert is_held.wait(20)
        with time_machine.travel(began + timedelta(minutes=6)):
            assert is_named(6)
            results[1].set_result(1)
            end = monotonic() + 20
            while is_named(6):
                assert monotonic() < end
        assert is_named(12)
        results[0].set_result(0)
        working.result()
