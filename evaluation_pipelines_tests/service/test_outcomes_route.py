"""Outcomes over HTTP: stored for the organization of the key, with the reason of a defect."""

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore
from evaluation_pipelines_tests.service.clients import Service

SENT = {"session_id": "one", "kind": "merged", "reference": "pull/12"}


def test_an_outcome_is_stored_for_the_organization_of_its_key(service: Service) -> None:
    acme = service.client(service.key(Role.INGEST, "acme"))
    stored = {"organization_id": "acme", **SENT, "value": 1.0, "is_known": False}
    for _ in range(2):
        answer = acme.post("/api/v1/outcomes", json=SENT)
        assert (answer.status_code, answer.json()) == (200, stored)
    assert acme.post("/api/v1/outcomes", json={**SENT, "organization": "beta"}).status_code == 404
    refused = acme.post("/api/v1/outcomes", json={**SENT, "kind": "nonsense"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_outcome")
    assert OutcomeStore(service.workplace.ledger).queued() == {}
