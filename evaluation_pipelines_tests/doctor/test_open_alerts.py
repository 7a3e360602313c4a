"""What doctor says of open alerts, a page or the advice of the alert, and of who holds a lock."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    failed_run_alert,
    judge_down_alert,
    stale_source_alert,
)
from evaluation_pipelines.doctor.domain.diagnosis import OpenAlert, diagnose
from evaluation_pipelines.doctor.examine import examine
from evaluation_pipelines.doctor.open_alerts import open_alerts
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
