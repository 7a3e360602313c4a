"""``GET /api/v1/evaluation-events``: each change once, in order, by a cursor."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.evaluations.outbox import Outbox, current_evaluations, note_changes
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.evaluations.conftest import draw_for_review
from evaluation_pipelines_tests.evaluations.test_send import ALL, correct
from evaluation_pipelines_tests.judged import JUNE_1
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import NOON_NS, attributes


def page(client: TestClient, after: int, **query: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the events after a position, and where the next page begins."""
    answer = client.get("/api/v1/evaluation-events", params={"after": after, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["events"], answer.json()["next_after"]


def named(events: list[dict[str, Any]], session: str) -> dict[str, tuple[Any, Any]]:
    mine = [event for event in events if event["session_id"] == session]
    return {event["name"]: (event["value"], event["label"]) for event in mine}


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
    assert named(page(later, after)[0], "s1") == named(changed, "s1")  # the rest was in the first
    whole, _ = page(later, 0)  # who begins late gets what counts now
    assert named(whole, "s1") == ALL | {"session.effective": (20, "fail"), "override": (20, None)}
    assert len(whole) == 13 + 14


def land_span(workplace: Workplace, number: int, parent: int | None, **of: str) -> None:
    """Take in a span of one trace, and build."""
    said = {f"gen_ai.{name.replace('__', '.')}": value for name, value in of.items()}
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": of["operation__name"],
        "startTimeUnixNano": str(NOON_NS),
        "endTimeUnixNano": str(NOON_NS + 1),
        "attributes": attributes(said),
    }
    scope = {"scope": {"name": "app"}, "spans": [span]}
    line = json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]})
    workplace.land(f"{number}.jsonl", line.encode() + b"\n")
    workplace.ingest()
    workplace.build()


def test_a_session_that_no_longer_exists_is_withdrawn(workplace: Workplace) -> None:
    """A trace without a session has one of its own, until its root names a session."""
    land_span(workplace, 2, 1, operation__name="execute_tool", tool__name="read")
    events, end = page(Service(workplace).client(), 0)
    (key,) = {event["session_key"] for event in events}
    land_span(workplace, 1, None, operation__name="invoke_agent", conversation__id="chat-7")
    assert key not in workplace.sessions()["session_key"]

    later = Service(workplace, NOW + timedelta(hours=1)).client()
    pages = [page(later, end, limit=1)]
    pages.append(page(later, pages[0][1], limit=1))
    gone = {
        (event["name"], event["label"])
        for found, _ in pages
        for event in found
        if event["session_key"] == key
    }
    assert gone == {(event["name"], "withdrawn") for event in events}


def test_explanations_are_for_reviewers_and_organizations_are_apart(judged: Workplace) -> None:
    service = Service(judged)
    for role, is_shown in ((Role.READER, False), (Role.REVIEWER, True)):
        events, _ = page(service.client(service.key(role)), 0)
        total = next(event for event in events if event["name"] == "judge.total")
        assert (total["explanation"] is not None) is is_shown
    assert page(service.client(service.key(Role.READER, "acme")), 0) == ([], 0)


def test_a_reviewer_does_not_see_what_awaits_the_review(judged: Workplace) -> None:
    service = Service(judged)
    client = service.client(service.key(Role.REVIEWER))
    assert len(page(client, 0)[0]) == 26  # noted before the night that draws s2
    draw_for_review(judged)
    events, end = page(client, 0)
    assert {event["session_id"] for event in events} == {"s1"}

    correct(judged, 40, "s2", "audit")
    answered, _ = page(client, end)
    corrected = {"session.effective": (40, "fail"), "override": (40, None)}
    assert named(answered, "s2") == ALL | corrected
    assert not named(answered, "s1")


def test_a_score_that_changes_for_a_while_only_is_not_lost_for_who_read_meanwhile(
    judged: Workplace,
) -> None:
    client = Service(judged).client()
    note_changes(judged.stores, NOW)
    correct(judged, 20)
    with held(judged.ledger, "note evaluations"):  # the correction is not noted yet
        events, end = page(client, 0)
    assert "session.effective" not in named(events, "s1")

    OverrideStore(judged.ledger).undo("Ada", NOW, 1)
    judged.build()
    after, end = page(client, end)
    assert named(after, "s1") == {"session.effective": (59.5, "pass")}
    assert page(client, end) == ([], end)


def test_a_session_that_moves_to_another_date_has_not_changed(judged: Workplace) -> None:
    note_changes(judged.stores, NOW)
    outbox, current = Outbox(judged.ledger), current_evaluations(judged.stores, [JUNE_1])
    before, may_31 = outbox.after(0, 9), JUNE_1 - timedelta(days=1)
    with held(judged.ledger, "note evaluations") as hold:
        assert outbox.note(hold, may_31, "0" * 64, current, {}, NOW) == 0
        assert outbox.note(hold, JUNE_1, "0" * 64, current.clear(), {}, NOW) == 0
    assert outbox.after(0, 9) == [replace(change, session_date=may_31) for change in before]


def test_a_process_that_notes_changes_delays_no_answer(judged: Workplace) -> None:
    with held(judged.ledger, "note evaluations"):
        assert page(Service(judged).client(), 0) == ([], 0)


@pytest.mark.parametrize("after", ["-1", "soon", str(2**63)])
def test_a_position_that_is_none_is_refused(judged: Workplace, after: str) -> None:
    client = Service(judged).client()
    assert client.get(f"/api/v1/evaluation-events?after={after}").status_code == 400
