"""What doctor says of open alerts, a page or the advice of the alert, and of who holds a lock."""

import os
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
import time_machine

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    failed_run_alert,
    judge_down_alert,
    stale_source_alert,
)
from evaluation_pipelines.doctor.domain.diagnosis import OpenAlert, diagnose
from evaluation_pipelines.doctor.examine import examine
from evaluation_pipelines.doctor.open_alerts import open_alerts
from evaluation_pipelines.engine.in_order import in_order
from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


def test_a_failed_run_leads_to_dagster(tmp_path: Path) -> None:
    with open_workplace(tmp_path, dagster_url="https://runs.example/") as workplace:
        alert = failed_run_alert("job", ["a"], "1b-2", "why", NOW.date())
        AlertStore(workplace.ledger).put(alert, NOW)
        (found,) = open_alerts(workplace.stores)
        assert found.page == "https://runs.example/runs/1b-2"
        page = Service(workplace).client().get("/").text
        link = '<a href="https://runs.example/runs/1b-2">See why a run of job failed</a>'
        assert link in page


def test_an_alert_without_a_page_repeats_its_advice(workplace: Workplace) -> None:
    store = AlertStore(workplace.ledger)
    store.put(stale_source_alert("codex", NOW, timedelta(hours=24)), NOW)
    store.put(judge_down_alert("401"), NOW)
    day = f"{NOW:%Y-%m-%d}"
    assert list(open_alerts(workplace.stores)) == [
        OpenAlert(
            f"alert of {day}: no telemetry of codex for more than 24 hours",
            "Check that the collector runs and writes into the landing folder: "
            "evaluation-pipelines status shows how much of each file has been read.",
        ),
        OpenAlert(
            f"alert of {day}: the judge does not answer", "the page /judge has what helps", "/judge"
        ),
    ]


def test_a_process_that_holds_a_lock_in_silence_is_named(workplace: Workplace) -> None:
    with held(workplace.ledger, "ingest"):
        now = examine(workplace.stores, datetime.now(UTC), asks=False)
        later = examine(workplace.stores, datetime.now(UTC) + timedelta(minutes=6), asks=False)
    silent = [check.seen for check in diagnose(later) if "holds the lock" in check.seen]
    named = f"process {os.getpid()} on {socket.gethostname()} holds the lock ingest"
    assert [each.partition(",")[0] for each in silent] == [named]
    assert not any("holds the lock" in check.seen for check in diagnose(now))
    assert examine(workplace.stores, NOW, asks=False).at_work == []


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
        facts = examine(workplace.stores, began + timedelta(minutes=minutes), asks=False)
        return any("holds the lock" in check.seen for check in diagnose(facts))

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
