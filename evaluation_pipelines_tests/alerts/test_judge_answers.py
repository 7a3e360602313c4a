"""The alert that the judge does not answer: raised once, and over when it answers."""

import logging
import re

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.judge_answers import note_judge
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace

LOG = logging.getLogger("judge")


def down() -> JudgeReport:
    report = JudgeReport(stop_reason="the endpoint answered 401")
    report.count_deferred(LeftOpenReason.ENDPOINT_DOWN, "the endpoint answered 401")
    return report


def open_alerts(workplace: Workplace) -> list[str]:
    return [each.alert.title for each in AlertStore(workplace.ledger).all() if not each.ended_at]


def test_the_overview_says_so_until_the_judge_answers(workplace: Workplace) -> None:
    client, stores = Service(workplace).client(), workplace.stores
    for _ in range(2):
        note_judge(stores, down(), NOW, LOG)
    assert open_alerts(workplace) == ["the judge does not answer"]
    page = client.get("/").text
    assert re.search(r'class="urgent"><a href="[^"]*">See why the judge does not answer<', page)
    assert "the endpoint answered 401" in page
    note_judge(stores, JudgeReport(), NOW, LOG)  # it was not asked
    assert open_alerts(workplace) == ["the judge does not answer"]
    note_judge(stores, JudgeReport(totals=[64]), NOW, LOG)
    assert open_alerts(workplace) == []
    note_judge(stores, down(), NOW, LOG)
    assert open_alerts(workplace) == ["the judge does not answer"]
