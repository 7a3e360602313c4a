"""Requests of people while a run judges: errors, judges that they are not for, and forced runs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.runner import judge_run, requests
from evaluation_pipelines.judging.runner.judge_run import JudgeRun, RunRequest
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.service.scoring_worker import ScoringWorker
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.service.scoring_service import (
    PATH,
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.workplace import NOW

NAMES = tuple(f"s{n}" for n in range(1, 7))


@contextmanager
def judging(
    service: ScoringService, overrides: PlanOverrides | None = None, **request: Any
) -> Iterator[Any]:
    """Judge all sessions in another thread, from its first call on; yield the future report."""
    stores = service.workplace.stores
    plans = load_plans(stores, NOW, overrides)
    run = JudgeRun(stores, plans, RunRequest("night", **request), service.clock)
    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(run.run, stores.lake.partitions(AGENT_SESSIONS))
        service.judge.wait_for(1)
        yield report


@contextmanager
def of_six(folder: Path) -> Iterator[ScoringService]:
    lines = (session_with_texts(each) for each in NAMES)
    with open_service(folder, *lines, judge_concurrency=1) as service:
        service.judge.latency_s = 0.3
        yield service


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, is_it: Any) -> None:
    """Let the first call of a method fail for which ``is_it`` is true."""
    real, failed = getattr(owner, name), list[bool]()

    def method(self: Any, *args: Any, **more: Any) -> Any:
        if not failed and is_it(self, *args):
            failed.append(True)
            raise LedgerLockedError("busy")
        return real(self, *args, **more)

    monkeypatch.setattr(owner, name, method)


def test_a_request_that_an_error_ended_is_in_progress_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with of_six(tmp_path) as service, judging(service) as report:
        is_request = lambda store, score_id, *_: store.get(score_id).is_request  # noqa: E731
        fails_once(monkeypatch, ScoreStore, "complete", is_request)
        service.client().post(PATH.format("s6"), json={"force_rescore": True})
        wait_for(lambda: service.score("s6#baseline-1").waits)
        assert not report.done()
        assert service.score("s6#baseline-1").status == "pending"
        report.result(60)


def test_a_search_for_requests_that_fails_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with of_six(tmp_path) as service:
        fails_once(monkeypatch, requests.RequestLane, "_find", lambda _: True)
        with judging(service) as future:
            service.client().post(PATH.format("s6"), json={"force_rescore": True})
            wait_for(lambda: not service.score("s6#baseline-1").is_open)
            assert not future.done()
            report: JudgeReport = future.result(60)
        assert len(report.totals) == 6


def test_a_forced_run_that_lets_go_judges_no_session_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_run, "_LET_GO_S", 0.5)
    other = PlanOverrides(model="judge-2")
    with of_six(tmp_path) as service, judging(service, other, extra=ExtraDue(force=True)) as report:
        service.judge.wait_for(3)  # the second session
        service.client().post(PATH.format("s6"))
        assert len(report.result(60).totals) == 5
        assert service.score("s6#baseline-1").judge_model == "judge-1"
        for each in NAMES:
            scores = service.scores.by_session("default", f"{each}#baseline-1")
            assert [score.judge_model for score in scores].count("judge-2") <= 1


def test_a_run_by_another_judge_lets_go_before_it_has_ended(tmp_path: Path) -> None:
    other = PlanOverrides(model="judge-2")
    with of_six(tmp_path) as service, judging(service, other) as report:
        service.client().post(PATH.format("s6"))
        worker = ScoringWorker(service.workplace.stores, service.clock)
        worker.start()
        wait_for(lambda: not service.score("s6#baseline-1").is_open)
        worker.stop()
        assert not report.done()
        assert service.score("s6#baseline-1").judge_model == "judge-1"
        assert len(report.result(60).totals) == 5


def test_a_service_leaves_the_lock_alone_for_what_it_cannot_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_service(tmp_path) as service:
        score_id = service.client().post(PATH.format("s1")).json()["score_id"]
        scores = ScoreStore(service.workplace.ledger)
        address = "http://another.example"
        with scores._rows() as rows:
            rows.change_open(score_id, {"endpoint": address})
        runs, real = list[bool](), JudgeRun.serve

        def serve(run: JudgeRun) -> JudgeReport:
            runs.append(True)
            return real(run)

        monkeypatch.setattr(JudgeRun, "serve", serve)
        looked, find = list[bool](), ScoreStore.requests

        def look(store: ScoreStore, now: Any) -> Any:
            looked.append(True)
            return find(store, now)

        monkeypatch.setattr(ScoreStore, "requests", look)
        worker = ScoringWorker(service.workplace.stores, service.clock, poll_seconds=0.05)
        worker.start()
        wait_for(lambda: len(looked) > 10)
        worker.stop()
        assert len(runs) == 1
