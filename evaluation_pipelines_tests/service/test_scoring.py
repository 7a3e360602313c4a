"""Scoring on request over HTTP: every row of the status table, and who may."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore, sessions_that_left
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
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
)
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world.ledger import NOON

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


@pytest.mark.parametrize(
    ("status", "force", "answer"),
    [
        ("pending", False, (202, "pending", "the same")),
        ("in_progress", False, (202, "in_progress", "the same")),
        ("pending", True, (409, None, "the same")),
        ("in_progress", True, (409, None, "the same")),
        ("completed", True, (202, "pending", "another")),
        ("failed", True, (202, "pending", "another")),
    ],
)
def test_what_is_under_way_is_the_answer_and_what_has_ended_is_forced(
    service: ScoringService, status: str, force: bool, answer: tuple[int, str | None, str]
) -> None:
    score_id = reach(service, status)
    response = service.client().post(S1, json={"force_rescore": force})
    record = response.json()
    newest = service.score().score_id
    which = "the same" if newest == score_id else "another"
    assert (response.status_code, record.get("status"), which) == answer
    if response.status_code == 409:
        assert record["error"]["code"] == "scoring_under_way"
    else:
        assert record == {"score_id": newest, "session_id": "s1", "status": answer[1]}
        assert service.client().get(S1).json()["status"] == answer[1]


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
