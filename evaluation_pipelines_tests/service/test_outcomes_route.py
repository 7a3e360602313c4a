"""Outcomes over HTTP: stored for the organization of the key, with the reason of a defect."""

import csv

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.world import claude, line

SENT = {"session_id": "one", "kind": "merged", "reference": "pull/12"}


def test_an_outcome_is_stored_for_the_organization_of_its_key(service: Service) -> None:
    acme = service.client(service.key(Role.INGEST, "acme"))
    stored = {"organization_id": "acme", **SENT, "value": 1.0, "is_known": False}
    for _ in range(2):
        answer = acme.post("/api/v1/outcomes", json=SENT)
        assert (answer.status_code, answer.json()) == (200, stored)
    assert acme.post("/api/v1/outcomes", json={**SENT, "organization": "beta"}).status_code == 404
    # A key learns nothing of the sessions of another organization.
    service.workplace.land("a.jsonl", line(claude("user_prompt", session__id="one")))
    service.workplace.ingest()
    assert acme.post("/api/v1/outcomes", json=SENT).json()["is_known"] is False
    of_default = service.client(service.key(Role.INGEST, "default"))
    assert of_default.post("/api/v1/outcomes", json=SENT).json()["is_known"] is True
    service.workplace.build()
    reader = service.client(service.key(Role.READER))
    (row,) = csv.DictReader(reader.get("/sessions.csv").text.splitlines())
    assert [row[name] for name in ("commit", "merged", "reverted")] == ["", "true", ""]
    assert [row[name] for name in ("survival_7d", "tests_after_last_edit")] == ["", ""]
    for outcome, number in (("merged", 1), ("not_merged", 0), ("reverted", 0)):
        listed = reader.get("/api/v1/sessions", params={"outcome": outcome}).json()["sessions"]
        assert len(listed) == number, outcome
    assert reader.get("/api/v1/sessions?outcome=lost").status_code == 400
    refused = acme.post("/api/v1/outcomes", json={**SENT, "kind": "nonsense"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_outcome")
