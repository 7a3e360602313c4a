"""Comparisons in the background: what a page gets while one is computed."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_native_id
from typing import Any

import pytest

from evaluation_pipelines.scorecards.scorecard_queries import EmptyTimeRangeError
from evaluation_pipelines.service import kept
from evaluation_pipelines.service.kept import Asked, Kept, RecentResults
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace


class Work:
    """Stands for the comparison: ends when it may, and counts its questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_end, self.fails = Event(), False
        self.asked: list[Asked] = []
        monkeypatch.setattr(kept, "compared", self)

    def __call__(self, *question: Any) -> Any:
        """Answer a question when it may."""
        self.asked.append(question[1])
        self.may_end.wait(10)
        if self.fails:
            raise EmptyTimeRangeError("from must be before to")
        return f"comparison {len(self.asked)}"


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_a_page_gets_nothing_until_its_comparison_is_computed(
    workplace: Workplace, work: Work
) -> None:
    known = Kept(workplace.stores).comparisons
    asked = Asked("acme", "code", (NOW, None))
    assert known.get(asked, NOW, 0) is None
    work.may_end.set()
    found: object = known.get(asked, NOW, 10)
    assert found == "comparison 1"
    assert work.asked == [asked]


def test_the_oldest_questions_are_forgotten(
    workplace: Workplace, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Kept(workplace.stores).comparisons
    monkeypatch.setattr(known, "_most_known", 2)
    for label in "abc":  # b and c wait for a, which is being computed
        known.get(Asked(label=label), NOW, 0)
        while not work.asked:
            time.sleep(0.01)
    known.get(Asked(label="d"), NOW, 0)
    work.may_end.set()
    known.get(Asked(label="d"), NOW, 10)
    assert [asked.label for asked in work.asked] == ["a", "c", "d"]


@pytest.mark.skipif(sys.platform != "linux", reason="priorities are those of processes")
def test_the_worker_gives_way_to_pages(workplace: Workplace) -> None:
    def priority(*_: object) -> int:
        return os.getpriority(os.PRIO_PROCESS, get_native_id())

    results = RecentResults[str, int]("test", workplace.lake, (), priority)
    assert results.get("", NOW, 10) == min(19, priority() + 10)


def test_a_question_that_failed_is_asked_again(workplace: Workplace, work: Work) -> None:
    known = Kept(workplace.stores).comparisons
    work.may_end.set()
    work.fails = True
    with pytest.raises(EmptyTimeRangeError):
        known.get(Asked(), NOW, 10)
    work.fails = False
    found: object = known.get(Asked(), NOW, 10)
    assert found == "comparison 2"


def test_many_who_ask_at_once_keep_no_page_waiting(service: Service, work: Work) -> None:
    """A comparison is computed once for all of them, and they take no thread of pages."""
    url = "/api/v1/comparison"
    with service.client() as client, ThreadPoolExecutor(90) as asking:
        # Several times as many as there are threads for routes.
        waiting = [asking.submit(client.get, url) for _ in range(85)]
        while not work.asked:
            time.sleep(0.01)
        assert client.get("/api/v1/sessions").status_code == 200
        assert client.get("/models").status_code == 200
        assert not any(future.done() for future in waiting)
        work.fails = True
        work.may_end.set()
        assert {future.result().status_code for future in waiting} == {400}
    assert len(work.asked) == 1


def test_whoever_waits_gets_an_answer_however_much_else_is_asked_for(
    service: Service, work: Work
) -> None:
    recent = service.app.state.kept.comparisons
    recent._most_known = 1
    with service.client() as client, ThreadPoolExecutor(3) as asking:
        urls = [f"/api/v1/comparison?classification_label={letter}" for letter in "abc"]
        waiting = [asking.submit(client.get, url) for url in urls]
        while not work.asked:
            time.sleep(0.01)
        time.sleep(0.3)  # enough for all three to wait
        work.fails = True
        work.may_end.set()
        assert {future.result().status_code for future in waiting} == {400}
