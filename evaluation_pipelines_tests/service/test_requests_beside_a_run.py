"""Requests of people next to a run: served first, by the process that judges, counted once."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.judging import run as judge_run
from evaluation_pipelines.judging import score_requests
from evaluation_pipelines.judging.domain.budget import Budget, BudgetLimits
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import JudgeRun, RunRequest
from evaluation_pipelines.judging.runner import Interruption
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.service.live import ScoringWorker
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES
from evaluation_pipelines.storage.lock import JUDGE, Hold, held
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.service.scoring_service import (
    PATH,
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.workplace import NOW, open_workplace

S1 = PATH.format("s1")

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
    lines = (session_with_texts(name) for name in NAMES)
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


def is_request(store: ScoreStore, score_id: str, *_: Any) -> bool:
    return store.get(score_id).is_request


def test_a_request_that_an_error_ended_is_in_progress_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with of_six(tmp_path) as service, judging(service) as report:
        fails_once(monkeypatch, ScoreStore, "complete", is_request)
        service.client().post(PATH.format("s6"), json={"force_rescore": True})
        wait_for(lambda: service.score("s6#baseline-1").waits)
        assert not report.done()
        assert service.score("s6#baseline-1").status == "pending"
        report.result(60)


def test_a_request_that_is_tried_again_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_requests, "_FIRST_DELAY", timedelta(seconds=0.1))
    with of_six(tmp_path) as service:
        service.judge.latency_s = 0.6
        fails_once(monkeypatch, ScoreStore, "complete", is_request)
        with judging(service) as future:
            service.client().post(PATH.format("s6"), json={"force_rescore": True})
            report: JudgeReport = future.result(60)
        assert service.score("s6#baseline-1").waits == 1
        assert (len(report.totals), report.taken_by_another_run) == (6, 1)
        assert (report.candidates, report.deferred.total(), report.requests) == (7, 0, 1)


def test_a_search_for_requests_that_fails_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with of_six(tmp_path) as service:
        fails_once(monkeypatch, score_requests.RequestLane, "_find", lambda _: True)
        with judging(service) as future:
            service.client().post(PATH.format("s6"), json={"force_rescore": True})
            wait_for(lambda: not service.score("s6#baseline-1").is_open)
            assert not future.done()
            report: JudgeReport = future.result(60)
        assert len(report.totals) == 6


def test_a_forced_run_that_lets_go_judges_no_session_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_run, "LET_GO_S", 0.5)
    other = PlanOverrides(model="judge-2")
    with of_six(tmp_path) as service, judging(service, other, extra=ExtraDue(force=True)) as report:
        service.judge.wait_for(3)  # the second session
        service.client().post(PATH.format("s6"))
        assert len(report.result(60).totals) == 5
        assert service.score("s6#baseline-1").judge_model == "judge-1"
        for name in NAMES:
            scores = service.scores.by_session("default", f"{name}#baseline-1")
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


def test_a_run_is_left_for_a_person_once_for_each_gap_that_another_run_has_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_run, "LET_GO_S", 0.3)
    monkeypatch.setattr(judge_run, "_OTHER_JUDGE_S", 0.5)
    with open_workplace(tmp_path) as workplace, ExitStack() as other:
        let_go_for, rounds = set[str](), list[set[str]]()

        def judge(_: Hold) -> bool:
            rounds.append(set(let_go_for))
            let_go_for.add("asked")
            if len(rounds) == 2:
                threading.Timer(0.1, other.enter_context, [held(workplace.ledger, JUDGE)]).start()
            return True

        # The other run has not ended in time: what was done is not lost.
        judge_run.judge_in_turns(workplace.ledger, 0.0, judge, let_go_for)
        assert (rounds, let_go_for) == ([set(), {"asked"}], set())


async def nothing_else(_: object) -> None:
    """Have no work, as a validation between two calls."""


def hold_the_lock(
    service: ScoringService, work: Any, report: JudgeReport | None = None, **given: Any
) -> None:
    """Do some work as a judge, which serves requests; ``given`` has fields of ``RunStores``."""
    stores = service.workplace.stores
    with held(stores.ledger, JUDGE) as hold:
        known = {"scores": service.scores, "clock": service.clock, **given}
        run = judge_run.RunStores(stores, load_plans(stores, NOW), hold=hold, **known)
        limits = Budget(BudgetLimits())
        judge_run.judge_by(run, limits, report or JudgeReport(), "ada", Silent(), work)


def test_a_request_for_an_address_that_no_process_uses_any_more_fails_with_the_reason(
    tmp_path: Path,
) -> None:
    with open_service(tmp_path) as service:
        asked = service.client().post(PATH.format("s1")).json()
        scores, known = ScoreStore(service.workplace.ledger), set[str]()
        stores = service.workplace.stores
        request = RunRequest("ada")
        # The judge that was asked for takes the lock only after another one has let go of it.
        for hours, let_go_for, status in (
            (1.1, None, "pending"),
            (1.1, known, "pending"),
            (0.9, known, "pending"),
            (1.1, known, "failed"),
        ):
            with scores._rows() as rows:
                asked_at_us = to_us(service.clock() - timedelta(hours=hours))
                changed = {"endpoint": "http://another.example", "scored_at_us": asked_at_us}
                rows.change_open(asked["score_id"], changed)
            if let_go_for is None:
                hold_the_lock(service, nothing_else)
            else:
                plans = load_plans(stores, NOW)
                JudgeRun(stores, plans, request, service.clock, let_go_for=let_go_for).serve()
            assert scores.get(asked["score_id"]).status == status
        assert re.fullmatch(
            r"requested at 2026-\d\d-\d\d \d\d:\d\d UTC from the judge at http://another.example, "
            r"which no process has used since: request it again, and http://127.* judges it",
            scores.get(asked["score_id"]).error_message or "",
        )


def test_a_request_whose_hour_ends_during_a_run_fails_in_it(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        asked = service.client().post(S1).json()["score_id"]
        report = JudgeReport()
        with service.scores._rows() as rows:
            rows.change_open(asked, {"endpoint": "http://another.example"})
        passed = timedelta()

        async def work(_: object) -> None:
            nonlocal passed
            await asyncio.to_thread(wait_for, lambda: report.explanations)  # the lock is wanted
            passed = timedelta(hours=2)
            await asyncio.to_thread(wait_for, lambda: not service.score().is_open)

        clock = lambda: service.clock() + passed  # noqa: E731
        hold_the_lock(service, work, report, clock=clock, let_go_for=set())
        assert service.score().status == "failed"


def test_a_request_whose_date_could_not_be_read_is_served_by_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_requests, "_FIRST_DELAY", timedelta(seconds=0.1))
    with open_service(tmp_path) as service:
        stores, found = service.workplace.stores, spied(monkeypatch, score_requests, "find_due")
        (day,) = stores.lake.partitions(AGENT_SESSIONS)
        path = Path(stores.lake.place(AGENT_SESSIONS, day))
        whole, asked = path.read_bytes(), service.client().post(S1)
        path.write_bytes(whole[:200])

        async def work(_: object) -> None:
            await asyncio.to_thread(wait_for, lambda: found)
            await asyncio.to_thread(path.write_bytes, whole)
            await asyncio.to_thread(wait_for, lambda: not service.score().is_open)

        hold_the_lock(service, work)
        assert found[0].unreadable
        assert (asked.status_code, service.score().status) == (202, "completed")


def spied(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    """Return the results of a function, as they come."""
    real, results = getattr(owner, name), list[Any]()

    def call(*args: Any) -> Any:
        results.append(real(*args))
        return results[-1]

    monkeypatch.setattr(owner, name, call)
    return results


def test_a_request_begun_just_before_a_run_over_anchors_was_interrupted_is_in_progress_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, interruption = ScoreStore.claim, Interruption()

    def claim(*args: Any) -> Any:
        claimed = real(*args)
        interruption.set()
        time.sleep(0.2)  # the run is canceled meanwhile
        return claimed

    with open_service(tmp_path) as service:
        monkeypatch.setattr(ScoreStore, "claim", claim)
        service.client().post(S1)
        anchors = ScoreStore(service.workplace.ledger, ANCHOR_SCORES)
        with pytest.raises(asyncio.CancelledError):
            hold_the_lock(
                service,
                lambda _: asyncio.sleep(30),
                scores=anchors,
                interruption=interruption,
            )
        with held(service.workplace.ledger, JUDGE):  # else it is shown as waiting in any case
            assert service.score().status == "pending"


def test_a_person_does_not_wait_for_the_calls_of_a_run(tmp_path: Path) -> None:
    with of_six(tmp_path) as service:
        service.judge.may_answer.clear()
        with judging(service, max_sessions=1):
            service.client().post(PATH.format("s6"))
            try:
                service.judge.wait_for(2)  # the run's call is unanswered
            finally:
                service.judge.may_answer.set()


def test_several_people_are_served_at_the_same_time_beside_a_run(tmp_path: Path) -> None:
    with open_service(tmp_path, *(session_with_texts(name) for name in NAMES)) as service:
        stores = service.workplace.stores
        settings = stores.settings.model_copy(update={"judge_max_sessions": 1})
        limited = type(stores)(settings, stores.landing, stores.lake, stores.ledger)
        service.judge.latency_s = 1.0
        for name in NAMES[1:4]:
            service.client().post(PATH.format(name))
        run = JudgeRun(limited, load_plans(stores, NOW), RunRequest("night"), service.clock)
        report = run.run(stores.lake.partitions(AGENT_SESSIONS))
        assert service.judge.max_in_flight == 4  # one of the run, and three of people
        assert (len(report.totals), report.requests) == (4, 3)
        assert dict(report.deferred) == {"max_sessions": 2}  # requests are none of its sessions
        assert "3 of them on request" in report.summary()


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
