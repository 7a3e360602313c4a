"""Evaluations and outcomes sent to the service, and the reputation that follows."""

import csv
from typing import Any

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world import claude, line

SENT = {"agent_id": "scout", "passed": True, "evaluation_id": "run-1", "latency_ms": 40}
UNKNOWN = {
    "agent_id": "unknown",
    "organization_id": "default",
    "score": None,
    "lifecycle": "new",
    "eval_count": 0,
    "progress": "0/50",
    "window_size": 500,
    "pass_rate": 0,
    "avg_latency_ms": None,
    "streak": 0,
    "updated_at": "2026-12-01T00:00:00Z",
}


def test_an_unknown_agent_has_no_score(service: Service) -> None:
    assert service.client().get("/v1/reputation/unknown").json() == UNKNOWN


def test_the_answer_counts_this_evaluation(service: Service) -> None:
    client = service.client()
    for number in range(1, 51):
        sent = {**SENT, "evaluation_id": f"run-{number}"}
        answer = client.post("/v1/evaluate", json=sent).json()
        expected = None if number < 50 else 765
        assert answer["reputation"]["eval_count"] == number
        # 400 * 1 + 250 * (1 - 40/100) + 200 * 50/50 + 150 * 50/500 = 765.
        assert answer["reputation"]["score"] == expected
    assert answer == {
        "evaluation_id": "run-50",
        "passed": True,
        "reputation": {"score": 765, "lifecycle": "active", "eval_count": 50, "progress": None},
    }
    assert client.get("/v1/reputation/scout").json()["score"] == 765


def test_a_retry_changes_nothing_and_other_content_is_409(service: Service) -> None:
    client = service.client()
    first = client.post("/v1/evaluate", json=SENT)
    assert client.post("/v1/evaluate", json=SENT).json() == first.json()
    other = client.post("/v1/evaluate", json={**SENT, "passed": False})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "evaluation_conflict")


def test_an_evaluation_belongs_to_the_organization_of_its_key(service: Service) -> None:
    keys = [service.key(Role.INGEST, name) for name in ("acme", "beta")]
    acme, beta, reader = map(service.client, (*keys, service.key(Role.READER)))
    assert acme.post("/v1/evaluate", json=SENT).status_code == 200
    assert beta.post("/v1/evaluate", json={**SENT, "passed": False}).status_code == 200
    refused = beta.post("/v1/evaluate?organization=acme", json=SENT)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
    records = [
        reader.get("/v1/reputation/scout", params={"organization": name}).json()
        for name in ("acme", "beta", "default")
    ]
    assert [(record["eval_count"], record["streak"]) for record in records] == [
        (1, 1),
        (1, 0),
        (0, 0),
    ]
    ambiguous = reader.get("/v1/reputation/scout")
    assert ambiguous.status_code == 400
    assert ambiguous.json()["error"] == {
        "code": "ambiguous_agent",
        "message": "scout is an agent of several organizations.",
        "help": "Add ?organization=, one of: acme, beta",
    }
    assert acme.post("/v1/evaluate", json={**SENT, "agent_id": "lone"}).status_code == 200
    assert reader.get("/v1/reputation/lone").json()["organization_id"] == "acme"


@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": ""},
        {"agent_id": "a\0"},
        {"passed": "no"},
        {"passed": 1},
        {"latency_ms": -1},
        {"latency_budget_ms": 0},
        {"evaluated_at": "2026-06-01T00:00:00"},
        {"evaluated_at": "1999-01-01T00:00:00Z"},
        {"evaluated_at": "2026-12-01T00:05:00.000001Z"},
        {"source": "session"},
        {"pased": True},
    ],
)
def test_what_cannot_be_used_is_400(service: Service, change: dict[str, Any]) -> None:
    client = service.client()
    assert client.post("/v1/evaluate", json={**SENT, **change}).status_code == 400
    assert client.get("/v1/reputation/scout").json()["eval_count"] == 0


def test_a_clock_that_is_ahead_by_minutes_counts_at_once(service: Service) -> None:
    # It is 2026-12-01T00:00:00Z here.
    sent = {**SENT, "evaluated_at": "2026-12-01T00:05:00Z"}
    answer = service.client().post("/v1/evaluate", json=sent).json()
    assert answer["reputation"]["eval_count"] == 1


def test_an_agent_id_may_have_slashes(service: Service) -> None:
    client = service.client()
    assert client.post("/v1/evaluate", json={**SENT, "agent_id": "team/scout"}).status_code == 200
    record = client.get("/v1/reputation/team%2Fscout").json()
    assert (record["agent_id"], record["eval_count"]) == ("team/scout", 1)


def test_the_answer_to_a_reviewer_counts_no_session_that_awaits_review(service: Service) -> None:
    workplace, ingest, operator = service.workplace, *map(service.key, (Role.INGEST, Role.OPERATOR))
    profile_file(workplace)
    workplace.land("logs.jsonl", work("s1") + work("s2", 60))
    build(workplace)
    export_agents(workplace)
    session = workplace.lake.read(AGENT_SESSIONS, [DAY]).filter(session_id="s1").to_dicts()[0]
    sample = AuditSample(DAY, "default", session["session_key"], "calls", "0", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    sent = {**SENT, "agent_id": "claude-code"}
    counts = [
        service.client(key).post("/v1/evaluate", json=sent).json()["reputation"]["eval_count"]
        for key in (ingest, operator)
    ]
    assert counts == [2 + 1, 1 + 1]  # a key that cannot review sees both sessions


OUTCOME = {"session_id": "one", "kind": "merged", "reference": "pull/12"}


def test_an_outcome_is_stored_for_the_organization_of_its_key(service: Service) -> None:
    acme = service.client(service.key(Role.INGEST, "acme"))
    stored = {"organization_id": "acme", **OUTCOME, "value": 1.0, "is_known": False}
    for _ in range(2):
        answer = acme.post("/api/v1/outcomes", json=OUTCOME)
        assert (answer.status_code, answer.json()) == (200, stored)
    assert (
        acme.post("/api/v1/outcomes", json={**OUTCOME, "organization": "beta"}).status_code == 404
    )
    # A key learns nothing of the sessions of another organization.
    service.workplace.land("a.jsonl", line(claude("user_prompt", session__id="one")))
    service.workplace.ingest()
    assert acme.post("/api/v1/outcomes", json=OUTCOME).json()["is_known"] is False
    of_default = service.client(service.key(Role.INGEST, "default"))
    assert of_default.post("/api/v1/outcomes", json=OUTCOME).json()["is_known"] is True
    service.workplace.build()
    reader = service.client(service.key(Role.READER))
    (row,) = csv.DictReader(reader.get("/sessions.csv").text.splitlines())
    assert [row[name] for name in ("commit", "merged", "reverted")] == ["", "true", ""]
    assert [row[name] for name in ("survival_7d", "tests_after_last_edit")] == ["", ""]
    for outcome, number in (("merged", 1), ("not_merged", 0), ("reverted", 0)):
        listed = reader.get("/api/v1/sessions", params={"outcome": outcome}).json()["sessions"]
        assert len(listed) == number, outcome
    assert reader.get("/api/v1/sessions?outcome=lost").status_code == 400
    refused = acme.post("/api/v1/outcomes", json={**OUTCOME, "kind": "nonsense"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_outcome")
