"""The alert that the judge does not answer, alerts in the ledger, and what is gathered of locks."""

import logging
import os
import re
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
import time_machine

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.attention.domain.messages import Alert
from evaluation_pipelines.attention.gather import gather
from evaluation_pipelines.attention.send import note_judge, note_whole_run
from evaluation_pipelines.engine.work import in_order
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world.ledger import NOON, at

LOG = logging.getLogger("judge")


def down() -> JudgeReport:
    report = JudgeReport(stop_reason="the endpoint answered 401")
    report.count_deferred(LeftOpenReason.ENDPOINT_DOWN, "the endpoint answered 401")
    return report


def open_alerts(workplace: Workplace) -> list[str]:
    return [row.alert.title for row in AlertStore(workplace.ledger).all() if not row.ended_at]


def test_the_overview_says_so_until_the_judge_answers(workplace: Workplace) -> None:
    client, stores = Service(workplace).client(), workplace.stores
    for _ in range(2):
        note_judge(stores, down(), NOW, LOG)
    assert open_alerts(workplace) == ["Judge endpoint not responding"]
    page = client.get("/").text
    assert re.search(
        r'class="warning">\s*<a href="/operations/judge">Judge endpoint not responding<', page
    )
    assert "the endpoint answered 401" in page
    note_judge(stores, JudgeReport(), NOW, LOG)  # it was not asked
    assert open_alerts(workplace) == ["Judge endpoint not responding"]
    note_judge(stores, JudgeReport(totals=[64]), NOW, LOG)
    assert open_alerts(workplace) == []
    note_judge(stores, down(), NOW, LOG)
    assert open_alerts(workplace) == ["Judge endpoint not responding"]


@pytest.mark.parametrize("model", [None, "judge-1"])
def test_what_was_not_judged_is_over_after_a_run_that_judged_all(
    tmp_path: Path, model: str | None
) -> None:
    judge = {"judge_model": model, "openai_base_url": "http://127.0.0.1:9/v1"} if model else {}
    with open_workplace(tmp_path, **judge) as workplace:
        raise_and_end(workplace, has_judge=model is not None)


def raise_and_end(workplace: Workplace, *, has_judge: bool) -> None:
    stores = workplace.stores
    for day in (1, 2):
        then = NOW.replace(day=day)
        note_whole_run(stores, JudgeReport(), ["2026-11-30 was not written"], then, LOG)
    assert open_alerts(workplace) == ["Nightly judging did not finish"] * 2
    if has_judge:
        note_whole_run(stores, down(), [], NOW, LOG)
        note_whole_run(stores, JudgeReport(skip_reason="no money"), [], NOW, LOG)
        note_whole_run(stores, JudgeReport(), [], NOW, LOG, all_readable=False)
        assert len(open_alerts(workplace)) == 2
    note_whole_run(stores, JudgeReport(), [], NOW, LOG)  # nothing is due any longer
    assert open_alerts(workplace) == []


FULL = Alert("disk", "a", "disk full", "free some space")
OTHER = Alert("disk", "b", "disk b full", "")


def test_the_same_alert_is_raised_once_until_it_ends(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    assert store.put(FULL, NOON)
    assert not store.put(Alert("disk", "a", "still full", ""), at(minutes=1))
    assert store.put(OTHER, at(minutes=2))
    assert store.put(Alert("net", "a", "net down", ""), at(minutes=3))

    store.end_except("disk", {"b"}, at(minutes=4))
    assert not store.put(OTHER, at(minutes=5))
    assert store.put(FULL, at(minutes=6))
    # Ended alerts stay readable, and alerts of another kind do not end.
    assert [(row.alert.cause, row.ended_at) for row in store.all()] == [
        ("a", at(minutes=4)),
        ("b", None),
        ("a", None),
        ("a", None),
    ]


def test_only_unsent_alerts_wait(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    store.put(FULL, NOON)
    store.put(OTHER, NOON)
    first, second = store.unsent()
    assert (first.alert, first.raised_at, first.sent_at) == (FULL, NOON, None)

    store.mark_sent(first.alert_id, at(minutes=1))
    assert store.unsent() == [second]
    assert store.all()[0].sent_at == at(minutes=1)


def test_the_newest_alert_of_a_kind_is_found_even_after_it_ended(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    assert store.newest("disk") is None
    store.put(FULL, NOON)
    store.put(OTHER, NOON)
    store.put(Alert("net", "a", "net down", ""), NOON)
    store.end_except("disk", set(), NOON)
    newest = store.newest("disk")
    assert newest is not None
    assert newest.alert == OTHER


def test_a_process_that_holds_a_lock_in_silence_is_named(workplace: Workplace) -> None:
    with held(workplace.ledger, "ingest"):
        now = gather(workplace.stores, datetime.now(UTC))
        later = gather(workplace.stores, datetime.now(UTC) + timedelta(minutes=6))
    silent = [item.seen for item in attention(later) if "holds the lock" in item.seen]
    named = f"process {os.getpid()} on {socket.gethostname()} holds the lock ingest"
    assert [item.partition(". ")[0] for item in silent] == [named]
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
