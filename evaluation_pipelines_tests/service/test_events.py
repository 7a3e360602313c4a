"""Events over a WebSocket: channels, resumption, and who may listen."""

import threading
from typing import Any

import pytest
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyStore
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import Alert
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.service.events import parse_channel
from evaluation_pipelines.service.routes import events
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.service.clients import Service, denial
from evaluation_pipelines_tests.service.event_steps import (
    ALL,
    EVENTS,
    URL,
    arrived,
    received,
    score,
    types,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import MARCH_1
from evaluation_pipelines_tests.workplace import NOW, Workplace


def test_all_sessions_have_started_completed_and_failed(
    service: Service, workplace: Workplace
) -> None:
    with service.client() as client, client.websocket_connect(f"{ALL}&after=0") as socket:
        first = score(workplace.ledger, "s1")
        second = score(workplace.ledger, "s2", fails=True)
        messages = received(socket, 4)

    assert types(messages) == ["started", "completed", "started", "failed"]
    assert [each["score_id"] for each in messages] == [first, first, second, second]
    completed, failed = messages[1], messages[3]
    assert completed == {
        "event_id": 4,
        "type": "scoring.completed",
        "timestamp_us": 1_772_366_400_000_000,  # 2026-03-01, noon
        "score_id": first,
        "session_id": "s1",
        "session_key": "s1#baseline-1",
        "organization_id": "acme",
        "total_score": 64,
    }
    assert failed["error_message"] == "no verdict"


@pytest.mark.parametrize("name", ["s1", "s1%23baseline-1"])
def test_one_session_has_its_progress(service: Service, workplace: Workplace, name: str) -> None:
    channel = URL.format(f"session:{name}")
    arrived(workplace.ledger, "default", "s1")
    with service.client() as client, client.websocket_connect(f"{channel}&after=0") as socket:
        score(workplace.ledger, "s2")
        score(workplace.ledger, "s1")
        messages = received(socket, 4)

    assert types(messages) == ["started", "progress", "progress", "completed"]
    phases = [each.get("phase") for each in messages]
    assert phases == [None, "analyzing_methodology", "identifying_missing_tools", None]
    assert {each["session_key"] for each in messages} == {"s1#baseline-1"}


def test_alerts_and_evaluations_have_channels(service: Service, workplace: Workplace) -> None:
    AlertStore(workplace.ledger).put(Alert("parked", "c", "title", "text"), NOW)
    announced = Announcement(
        "id-1", "evaluation.quality_risk", MARCH_1, "acme", "s1", None, 10.0, '{"model": "m"}'
    )
    EventStore(workplace.ledger).record(MARCH_1, [announced], NOW)
    with service.client() as client:
        with client.websocket_connect(f"{URL.format('alerts')}&after=0") as socket:
            (alert,) = received(socket, 1)
        with client.websocket_connect(f"{URL.format('evaluations')}&after=0") as socket:
            (risk,) = received(socket, 1)
    assert (alert["type"], alert["payload"]["title"]) == ("alert.raised", "title")
    assert (risk["session_key"], risk["payload"]) == ("s1", {"model": "m"})


def test_without_a_position_only_new_events_come(service: Service, workplace: Workplace) -> None:
    score(workplace.ledger, "old")
    with service.client() as client, client.websocket_connect(ALL) as socket:
        score(workplace.ledger, "new")
        assert {each["session_id"] for each in received(socket, 2)} == {"new"}


def test_a_listener_resumes_where_it_was_without_a_gap_while_others_write(
    service: Service, workplace: Workplace
) -> None:
    sessions = 40

    def write() -> None:
        for number in range(sessions):
            score(workplace.ledger, f"s{number}")

    seen: list[dict[str, Any]] = []
    writer = threading.Thread(target=write)
    with service.client() as client:
        writer.start()
        while len(seen) < 2 * sessions:
            position = seen[-1]["event_id"] if seen else 0
            with client.websocket_connect(f"{ALL}&after={position}") as socket:
                seen += received(socket, min(7, 2 * sessions - len(seen)))
        writer.join()

    names = [f"s{number}" for number in range(sessions) for _ in range(2)]
    assert [each["session_id"] for each in seen] == names
    assert types(seen) == ["started", "completed"] * sessions


def test_an_organization_sees_its_own_events_alone(service: Service, workplace: Workplace) -> None:
    key = service.key(Role.READER, "acme")
    score(workplace.ledger, "theirs", "other")
    AlertStore(workplace.ledger).put(Alert("parked", "c", "title", "text"), NOW)
    score(workplace.ledger, "ours", "acme")
    with service.client(key) as client:
        with client.websocket_connect(f"{ALL}&after=0") as socket:
            score(workplace.ledger, "theirs-2", "other")
            score(workplace.ledger, "ours-2", "acme")
            messages = received(socket, 4)
        assert [each["session_id"] for each in messages] == ["ours", "ours", "ours-2", "ours-2"]
    channel = parse_channel("alerts", "acme")
    assert ServiceEvents(workplace.ledger).after(0, *channel.conditions) == []


@pytest.mark.parametrize("name", ["theirs", "theirs%23baseline-1", "none", "none%23baseline-1"])
def test_a_session_of_another_organization_is_as_unknown_as_one_that_is_not(
    service: Service, workplace: Workplace, name: str
) -> None:
    arrived(workplace.ledger, "other", "theirs")
    url, key = URL.format(f"session:{name}"), service.key(Role.READER, "acme")
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        service.client(key).websocket_connect(url),
    ):
        pass
    assert (refused.value.status_code, refused.value.json()) == (
        404,
        {
            "error": {
                "code": "not_found",
                "message": "The session does not exist.",
                "help": "GET /api/v1/sessions lists them.",
            }
        },
    )
    if name.startswith("theirs"):
        with service.client(service.key(Role.READER, "other")).websocket_connect(url):
            pass


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "unknown_channel"),
        ("?channel=session:", 400, "unknown_channel"),
        ("?channel=sessions:x", 400, "unknown_channel"),
        ("?channel=session:%00", 400, "unknown_channel"),
        ("?channel=sessions&after=-1", 400, "invalid_request"),
        ("?channel=sessions&after=x", 400, "invalid_request"),
        ("?channel=sessions&after=9223372036854775808", 400, "invalid_request"),
        ("?channel=sessions&after=" + "9" * 5000, 400, "invalid_request"),
        ("?channel=sessions&after=" + "0" * 5000, 400, "invalid_request"),
        ("?channel=sessions&after=" + "0" * 5 + "9" * 19, 400, "invalid_request"),
        ("?channel=sessions&after=٣", 400, "invalid_request"),
    ],
)
def test_an_invalid_request_is_refused_with_a_reason(
    service: Service, query: str, status: int, code: str
) -> None:
    assert refusal(service, None, f"{EVENTS}{query}") == (status, code)


def test_a_key_is_needed_and_the_right_role(service: Service) -> None:
    key = service.key(Role.INGEST)
    assert refusal(service, None, ALL) == (401, "no_key")
    assert refusal(service, "wrong", ALL) == (401, "no_key")
    assert refusal(service, key, ALL) == (403, "role_lacking")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999"])
def test_a_page_of_another_site_may_not_listen(service: Service, origin: str) -> None:
    headers = {"Origin": origin}
    assert refusal(service, None, ALL, headers) == (403, "foreign_origin")


def refusal(
    service: Service, key: str | None, url: str, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    return denial(service.client(key), url, headers)


def test_a_revoked_key_stops_listening(
    service: Service, workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_CHECK_CALLER_S", 0.05)
    key = service.key(Role.READER)
    with service.client(key) as client, client.websocket_connect(ALL) as socket:
        KeyStore(workplace.ledger).revoke("reader-all", NOW)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 1008


@pytest.mark.parametrize("organization", [None, "acme", "other"])
@pytest.mark.parametrize(
    "name", ["sessions", "session:s1", "session:s1#baseline-1", "evaluations", "alerts"]
)
def test_a_channel_means_the_same_in_the_ledger_and_in_memory(
    workplace: Workplace, name: str, organization: str | None
) -> None:
    ledger = workplace.ledger
    score(ledger, "s1")
    score(ledger, "s2", "other", fails=True)
    AlertStore(ledger).put(Alert("parked", "c", "title", "text"), NOW)
    announced = Announcement("i", "evaluation.quality_risk", MARCH_1, "acme", "s", None, 1, "{}")
    EventStore(ledger).record(MARCH_1, [announced], NOW)

    channel, stored = parse_channel(name, organization), ServiceEvents(ledger)
    included = [each for each in stored.after(0) if channel.includes(each)]
    assert stored.after(0, *channel.conditions) == included
