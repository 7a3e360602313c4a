"""Scoring on request over HTTP: every row of the status table, who may, and next to a run."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.judging import requests
from evaluation_pipelines.judging import run as judge_run
from evaluation_pipelines.judging.domain.budget import Budget, BudgetLimits
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import JudgeRun, RunRequest
from evaluation_pipelines.judging.termination import Interruption
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore, sessions_that_left
from evaluation_pipelines.service.live import ScoringWorker
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES
from evaluation_pipelines.storage.lock import JUDGE, Hold, held
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.answers import A1, path_of
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.test_withheld_scores import session
from evaluation_pipelines_tests.service.scoring_service import (
    KEY,
    PATH,
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON
from evaluation_pipelines_tests.workplace import NOW, open_workplace

S1 = PATH.format("s1")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScoringService]:
    """A service with one session, whose worker does not run: another process judges."""
    with open_service(tmp_path) as opened, held(opened.workplace.ledger, JUDGE):
        yield opened


def reach(service: ScoringService, status: str, key: str | None = None) -> str:
    """Bring the session to a status; return the id of its scoring."""
    score_id = str(service.client(key).post(S1).json()["score_id"])
    if status == "pending":
        return score_id
    store = service.scores
    store.claim(score_id, service.clock())
    if status == "completed":
        store.complete(score_id, DONE, service.clock())
    if status == "failed":
        store.fail(score_id, Failure("no verdict", retriable=False), service.clock())
    return score_id


@pytest.mark.parametrize("body", [None, {}, {"force_rescore": False}, {"force_rescore": True}])
def test_a_session_without_a_score_gets_a_new_scoring(
    service: ScoringService, body: dict[str, Any] | None
) -> None:
    response = service.client().post(S1, json=body)
    score = service.score()

    assert response.status_code == 202
    assert response.json() == {
        "score_id": score.score_id,
        "session_id": "s1",
        "status": "pending",
    }
    assert (score.status, score.score_triggered_by) == ("pending", "local")


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_ended_scoring_is_the_answer(service: ScoringService, status: str) -> None:
    score_id = reach(service, status)
    response = service.client().post(S1)

    assert response.status_code == 200
    record = response.json()
    assert (record["score_id"], record["status"]) == (score_id, status)
    assert record == service.client().get(S1).json()
    assert record["current_prompt_used"] is True
    assert record["error_message"] == (None if status == "completed" else "no verdict")
    assert record["total_score"] == (64 if status == "completed" else None)
    assert "batch_id" not in record


@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_an_unfinished_scoring_is_the_answer(service: ScoringService, status: str) -> None:
    score_id = reach(service, status)
    response = service.client().post(S1)

    assert response.status_code == 202
    assert response.json() == {"score_id": score_id, "session_id": "s1", "status": status}
    assert service.client().get(S1).json()["status"] == status


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_ended_session_is_scored_again_when_forced(service: ScoringService, status: str) -> None:
    score_id = reach(service, status)
    response = service.client().post(S1, json={"force_rescore": True})

    assert response.status_code == 202
    assert response.json()["status"] == "pending"
    assert response.json()["score_id"] != score_id


@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_a_scoring_that_is_under_way_is_not_forced(service: ScoringService, status: str) -> None:
    reach(service, status)
    response = service.client().post(S1, json={"force_rescore": True})

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "scoring_under_way"
    assert len(service.scores.by_session("default", "s1#baseline-1")) == 1


def test_a_session_that_goes_on_is_400(service: ScoringService) -> None:
    in_between = datetime(2026, 6, 1, 12, 10, tzinfo=UTC)
    object.__setattr__(service.installation, "clock", lambda: in_between)
    for force in (False, True):
        response = service.client().post(S1, json={"force_rescore": force})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "session_not_ended"


@pytest.mark.parametrize("body", ['{"force_rescore": "yes"}', '{"force": true}', "[]", "{", "1"])
def test_an_invalid_body_is_400(service: ScoringService, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = service.client().post(S1, content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_request"
    assert service.scores.dates() == []


def test_what_is_unknown_is_404(service: ScoringService) -> None:
    client = service.client()
    names = ("unknown", "s1%00", "%FF")
    answers = [send(PATH.format(name)) for send in (client.post, client.get) for name in names]
    for response in answers:
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    response = client.get(S1)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_scored")


def test_a_reader_gets_figures_and_no_texts(service: ScoringService) -> None:
    texts = ("score_analysis", "missing_tools_analysis")
    keys = {role: service.key(role) for role in (Role.READER, Role.REVIEWER, Role.OPERATOR)}
    reach(service, "completed", keys[Role.OPERATOR])
    records = {role: service.client(key).get(S1).json() for role, key in keys.items()}
    assert [records[Role.READER][name] for name in texts] == [None, None]
    assert [records[Role.REVIEWER][name] for name in texts] == [
        DONE["score_analysis"],
        DONE["missing_tools_analysis"],
    ]
    assert records[Role.READER]["total_score"] == 64


def test_an_organization_scores_its_own_sessions_alone(tmp_path: Path) -> None:
    both = (
        session_with_texts("both", organization__id="other"),
        session_with_texts("both", 60, organization__id="acme"),
    )
    lines = (session_with_texts("a", organization__id="acme"), session_with_texts("o"), *both)
    with open_service(tmp_path, *lines) as service:
        everything = service.client(service.key(Role.OPERATOR))
        acme = service.client(service.key(Role.OPERATOR, "acme"))

        assert acme.post(PATH.format("a")).status_code == 202
        for request in (acme.post, acme.get):
            assert request(PATH.format("o")).status_code == 404
            assert request(PATH.format("o%23baseline-1")).status_code == 404
        ambiguous = everything.post(PATH.format("both"))
        assert ambiguous.status_code == 400
        assert ambiguous.json()["error"]["code"] == "ambiguous_session"
        assert "both#baseline-1 of acme" in ambiguous.json()["error"]["help"]
        named = PATH.format("both") + "?organization=other"
        assert (acme.post(named).status_code, acme.get(named).status_code) == (404, 404)
        assert acme.post(PATH.format("both")).status_code == 202
        assert service.score("both#baseline-1", "acme").score_triggered_by == "operator-acme"
        assert service.scores.by_session("other", "both#baseline-1") == []
        assert everything.post(named).status_code == 202
        assert len(service.scores.by_session("other", "both#baseline-1")) == 1
        assert acme.get(PATH.format("both%23baseline-1")).json()["session_id"] == "both"


def test_a_forwarded_user_is_who_asked(tmp_path: Path) -> None:
    with open_service(tmp_path, trusted_proxies="10.0.0.7") as service:
        client = service.client(service.key(Role.OPERATOR), "10.0.0.7")
        client.post(S1, headers={"X-Forwarded-User": "ada"})
        assert service.score().score_triggered_by == "ada"


def test_without_a_judge_nothing_is_scored_and_scores_are_shown(tmp_path: Path) -> None:
    with open_service(tmp_path, judge_model=None) as service:
        client = service.client()
        response = client.post(S1)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "no_judge")
        assert client.get(S1).status_code == 404
        assert client.post(PATH.format("unknown")).status_code == 404


def test_what_is_known_is_answered_without_a_judge(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        reach(service, "completed")
        record = service.client().get(S1).json()
    with open_service(tmp_path, judge_model=None) as service:
        client = service.client()
        assert (client.post(S1).status_code, client.post(S1).json()) == (200, record)
        forced = client.post(S1, json={"force_rescore": True})
        assert (forced.status_code, forced.json()["error"]["code"]) == (503, "no_judge")


@pytest.mark.parametrize("store", [ScoreStore, SessionIndex])
@pytest.mark.parametrize("failures", [1, 2])
def test_a_store_that_fails_is_asked_once_more(
    service: ScoringService, monkeypatch: pytest.MonkeyPatch, store: Any, failures: int
) -> None:
    reach(service, "completed")
    name = "by_session" if store is ScoreStore else "dates_by_session_id"
    original, seen = getattr(store, name), []

    def failing(*args: Any) -> Any:
        seen.append(1)
        if len(seen) <= failures:
            raise LedgerLockedError("secret")
        return original(*args)

    for method in ("POST", "GET"):
        with monkeypatch.context() as patched, suppress(LedgerLockedError):
            seen.clear()
            patched.setattr(store, name, failing)
            response = service.client().request(method, S1)
            assert response.status_code == (200 if failures == 1 else 500)
            assert "secret" not in response.text
            assert len(seen) == 2


def test_the_document_describes_every_answer(service: ScoringService) -> None:
    paths = service.client().get("/openapi.json").json()["paths"]
    operations = paths[PATH.format("{session_id}")]
    assert set(operations["post"]["responses"]) == {
        *("200", "202", "400", "401", "403", "404", "408", "409", "410", "413", "429", "500", "503")
    }


def test_a_score_by_another_rubric_than_would_judge_now_is_obsolete(tmp_path: Path) -> None:
    page = f"/sessions/{KEY.replace('#', '%23')}/score"
    with open_service(tmp_path) as service:
        reach(service, "completed")
        assert "outdated rubric" not in service.client().get(page).text
    with open_service(tmp_path, judge_rubric="incident-investigation") as service:
        assert service.client().get(S1).json()["current_prompt_used"] is False
        assert "outdated rubric" in service.client().get(page).text


A1_SCORE = f"/api/v1/scoring/sessions/{path_of(A1)}/score"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Service]:
    """a1 of acme, which a judge has scored, waits for a review."""
    judge = {"judge_model": "judge-1", "openai_base_url": "http://127.0.0.1:9/v1"}
    with open_workplace(tmp_path, **judge) as workplace:
        profile_file(workplace, worst=11)
        workplace.land("logs.jsonl", session("a1", 0, 4))
        build(workplace)
        content = workplace.lake.read(AGENT_SESSIONS, [DAY])["content_hash"].item()
        scores = ScoreStore(workplace.ledger)
        score = scores.create(begun(A1, content_hash=content, session_date=DAY), NOON)
        scores.complete(score.score_id, DONE | {"total_score": 43}, NOON)
        samples = [AuditSample(DAY, "acme", A1, "calls", content, NOW)]
        OverrideStore(workplace.ledger).add_samples(samples)
        yield Service(workplace)


def test_who_forces_a_score_sees_it_and_the_session_leaves_the_sample(asked: Service) -> None:
    ann, ben = (asked.client(asked.key(role)) for role in (Role.OPERATOR, Role.REVIEWER))
    for client in (ann, ben):
        record = client.get(A1_SCORE).json()
        assert (record["awaits_review"], record["total_score"]) == (True, None)
    assert ann.post(A1_SCORE).json()["awaits_review"] is True  # nothing new was asked for

    assert ann.post(A1_SCORE, json={"force_rescore": True}).status_code == 202
    scores = ScoreStore(asked.workplace.ledger)
    forced = scores.by_session("acme", A1)[-1]
    scores.claim(forced.score_id, NOW)
    scores.complete(forced.score_id, DONE | {"total_score": 51}, NOW)
    for client in (ann, ben):
        record = client.get(A1_SCORE).json()
        assert (record["awaits_review"], record["total_score"]) == (False, 51)
    assert sessions_that_left(asked.workplace.ledger) == {("acme", A1)}


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
    monkeypatch.setattr(requests, "_FIRST_DELAY", timedelta(seconds=0.1))
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
    monkeypatch.setattr(judge_run, "LET_GO_S", 0.5)
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
    monkeypatch.setattr(requests, "_FIRST_DELAY", timedelta(seconds=0.1))
    with open_service(tmp_path) as service:
        stores, found = service.workplace.stores, spied(monkeypatch, requests, "find_due")
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
    with open_service(tmp_path, *(session_with_texts(each) for each in NAMES)) as service:
        stores = service.workplace.stores
        settings = stores.settings.model_copy(update={"judge_max_sessions": 1})
        limited = type(stores)(settings, stores.landing, stores.lake, stores.ledger)
        service.judge.latency_s = 1.0
        for each in NAMES[1:4]:
            service.client().post(PATH.format(each))
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
