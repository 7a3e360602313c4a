"""The alert that the judge does not answer: raised once, and over when it answers."""

import logging
import re
from pathlib import Path

import pytest

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.send import note_judge, note_whole_run
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

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
