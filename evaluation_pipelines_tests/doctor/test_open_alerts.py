"""What doctor says of open alerts: a page that helps, or the advice of the alert itself."""

from datetime import timedelta

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import judge_down_alert, stale_source_alert
from evaluation_pipelines.doctor.domain.diagnosis import OpenAlert
from evaluation_pipelines.doctor.open_alerts import open_alerts
from evaluation_pipelines_tests.workplace import NOW, Workplace


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
