"""``GET /api/v1/evaluation-events``: each change once, in order, by a cursor."""

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.evaluations.test_send import ALL, correct
from evaluation_pipelines_tests.judged import JUNE_1
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace


def page(client: TestClient, after: int, **query: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the events after a position, and where the next page begins."""
    answer = client.get("/api/v1/evaluation-events", params={"after": after, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["events"], answer.json()["next_after"]


def named(events: list[dict[str, Any]], session: str) -> dict[str, tuple[Any, Any]]:
    mine = [each for each in events if each["session_id"] == session]
    return {each["name"]: (each["value"], each["label"]) for each in mine}


def test_a_reader_follows_changes_without_a_gap(judged: Workplace) -> None:
    client = Service(judged).client()
    first, after = page(client, 0, limit=1)
    second, end = page(client, after, limit=1)
    assert named(first, "s1") == named(second, "s2") == ALL
    assert page(client, end) == ([], end)

    correct(judged, 20)
    later = Service(judged, NOW + timedelta(hours=1)).client()
    changed, newest = page(later, end)
    assert named(changed, "s1") == {"session.effective": (20, "fail"), "override": (20, None)}
    assert newest > end
    whole, _ = page(later, 0)  # who begins late gets what counts now
    assert named(whole, "s1") == ALL | {"session.effective": (20, "fail"), "override": (20, None)}
    assert len(whole) == 13 + 14


def test_explanations_are_for_reviewers_and_organizations_are_apart(judged: Workplace) -> None:
    service = Service(judged)
    for role, is_shown in ((Role.READER, False), (Role.REVIEWER, True)):
        events, _ = page(service.client(service.key(role)), 0)
        total = next(each for each in events if each["name"] == "judge.total")
        assert (total["explanation"] is not None) is is_shown
    assert page(service.client(service.key(Role.READER, "acme")), 0) == ([], 0)


def test_a_reviewer_does_not_see_what_awaits_the_review(judged: Workplace) -> None:
    service = Service(judged)
    client = service.client(service.key(Role.REVIEWER))
    assert len(page(client, 0)[0]) == 26  # noted before the night that draws s2
    content = judged.sessions().filter(session_key="s2#baseline-1")["content_hash"].item()
    sample = AuditSample(JUNE_1, "default", "s2#baseline-1", "default", content, NOW)
    OverrideStore(judged.ledger).add_samples([sample])
    assert {each["session_id"] for each in page(client, 0)[0]} == {"s1"}


def test_a_process_that_notes_changes_delays_no_answer(judged: Workplace) -> None:
    with held(judged.ledger, "note evaluations"):
        assert page(Service(judged).client(), 0) == ([], 0)


@pytest.mark.parametrize("after", ["-1", "soon", str(2**63)])
def test_a_position_that_is_none_is_refused(judged: Workplace, after: str) -> None:
    client = Service(judged).client()
    assert client.get(f"/api/v1/evaluation-events?after={after}").status_code == 400
