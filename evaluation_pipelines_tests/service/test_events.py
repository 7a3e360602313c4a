"""Events over a WebSocket: which a listener gets, from other processes, slow and many listeners."""

import asyncio
import json
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.testclient import WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyStore
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import Alert, spending_alert
from evaluation_pipelines.judging.ledger.score_store import Failure, ReceivedReply, ScoreStore
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.service import events as service_events
from evaluation_pipelines.service.caller import identify
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.events import EventHub, parse_channel
from evaluation_pipelines.service.routes import events
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import store_sessions
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, score_all, started, turn
from evaluation_pipelines_tests.service.clients import Service, denial
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world.ledger import MARCH_1, NOON


def test_all_sessions_have_started_completed_and_failed(
    service: Service, workplace: Workplace
) -> None:
    with service.client() as client, client.websocket_connect(f"{ALL}&after=0") as socket:
        first = score(workplace.ledger, "s1")
        second = score(workplace.ledger, "s2", fails=True)
        messages = received(socket, 4)

    assert types(messages) == ["started", "completed", "started", "failed"]
    assert [message["score_id"] for message in messages] == [first, first, second, second]
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
    phases = [message.get("phase") for message in messages]
    assert phases == [None, "analyzing_methodology", "identifying_missing_tools", None]
    assert {message["session_key"] for message in messages} == {"s1#baseline-1"}


def test_alerts_and_evaluations_have_channels(service: Service, workplace: Workplace) -> None:
    spent = [{"session_key": "s", "model": "m", "cost_usd": 2.0, "unknown": 0}]
    # It is left out: people are shown by team.
    AlertStore(workplace.ledger).put(spending_alert("2026-12", "person", ["bob"], 1.0, spent), NOW)
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
        assert {event["session_id"] for event in received(socket, 2)} == {"new"}


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
    assert [event["session_id"] for event in seen] == names
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
        assert [message["session_id"] for message in messages] == [
            "ours",
            "ours",
            "ours-2",
            "ours-2",
        ]
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


def test_a_key_is_looked_up_each_time_a_connection_asks(
    service: Service, workplace: Workplace
) -> None:
    key = service.key(Role.READER)
    headers = [(b"authorization", f"Bearer {key}".encode())]
    here = {"client": ("127.0.0.1", 1), "client_address": "127.0.0.1"}
    scope = {"type": "websocket", "app": service.app, "headers": headers, **here}
    assert identify(HTTPConnection(scope)).name == "reader-all"
    KeyStore(workplace.ledger).revoke("reader-all", NOW)
    with pytest.raises(ServiceError, match="no accepted key"):
        identify(HTTPConnection(scope))


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
    included = [event for event in stored.after(0) if channel.includes(event)]
    assert stored.after(0, *channel.conditions) == included


EVENTS = "ws://localhost:8400/api/v1/events"
URL = EVENTS + "?channel={}"
ALL = URL.format("sessions")


def score(ledger: Ledger, name: str, organization: str = "acme", *, fails: bool = False) -> str:
    """Score a session: started, two phases, and the end."""
    score = started(ledger, f"{name}#baseline-1", organization_id=organization)
    store, score_id = ScoreStore(ledger), score.score_id
    store.log_turn(ReceivedReply(score_id, turn(), 0.0, "identifying_missing_tools"))
    if fails:
        store.fail(score_id, Failure("no verdict", retriable=False), NOON)
    else:
        store.complete(score_id, DONE, NOON)
    return score_id


def arrived(ledger: Ledger, organization: str, session: str) -> None:
    """Let telemetry of a session arrive."""
    with writing(ledger.engine) as connection:
        store_sessions(connection, [SessionStart(organization, session, MARCH_1, NOON)])


def received(socket: WebSocketTestSession, number: int) -> list[dict[str, Any]]:
    return [socket.receive_json() for _ in range(number)]


def types(messages: list[dict[str, Any]]) -> list[str]:
    return [message["type"].removeprefix("scoring.") for message in messages]


def test_the_ledger_is_asked_at_least_each_second() -> None:
    assert service_events._POLL_S <= 1


def test_events_of_another_process_arrive_once_and_in_order(
    service: Service, workplace: Workplace
) -> None:
    spawn = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=spawn) as pool,
        service.client() as client,
        client.websocket_connect(ALL) as socket,
    ):
        written = pool.submit(score_all, workplace.settings.ledger_url, 3)
        messages = received(socket, 6)
        written.result()
        with client.websocket_connect(f"{ALL}&after=0") as again:
            assert received(again, 6) == messages
    assert types(messages) == ["started", "completed"] * 3


def test_a_listener_that_is_too_slow_reads_on_from_the_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_events, "_MOST_RECENT", 5)
    monkeypatch.setattr(service_events, "_PAGE", 7)
    channel, seen = parse_channel("sessions", None), list[int]()

    async def listen() -> None:
        hub = EventHub(ledger, poll_seconds=0.01)
        async with hub.running():
            messages = hub.messages(channel, 0)
            for number in range(20):
                await asyncio.to_thread(score, ledger, f"s{number}")
                if number % 6 == 0:
                    seen.append(json.loads(await anext(messages))["event_id"])
            while len(seen) < 40:
                seen.append(json.loads(await anext(messages))["event_id"])
            await messages.aclose()
            assert hub.listeners == 0

    asyncio.run(listen())
    expected = [
        event.event_id for event in ServiceEvents(ledger).after(0) if channel.includes(event)
    ]
    assert seen == expected


def test_a_listener_ahead_of_the_poller_gets_nothing_twice(ledger: Ledger) -> None:
    async def listen() -> str:
        hub = EventHub(ledger, poll_seconds=0.3)
        async with hub.running():
            await asyncio.wait_for(hub._is_started.wait(), 10)
            await asyncio.to_thread(score, ledger, "s1")
            messages = hub.messages(parse_channel("sessions", None), 4)  # all of s1
            coming = asyncio.create_task(anext(messages))
            await asyncio.sleep(0)
            await asyncio.to_thread(score, ledger, "s2")
            try:
                return await coming
            finally:
                await messages.aclose()

    assert json.loads(asyncio.run(listen()))["session_id"] == "s2"


def heard(ledger: Ledger, after: int | None, *meanwhile: str) -> dict[str, Any]:
    """Return the first message to a listener; sessions are scored while it listens."""

    async def listen() -> dict[str, Any]:
        hub = EventHub(ledger, poll_seconds=0.01)
        async with hub.running():
            messages = hub.messages(parse_channel("sessions", None), after)
            coming = asyncio.create_task(anext(messages))
            await asyncio.wait_for(hub._is_started.wait(), 10)
            for name in meanwhile:
                await asyncio.to_thread(score, ledger, name)
            try:
                return dict(json.loads(await coming))
            finally:
                await messages.aclose()

    return asyncio.run(listen())


def test_a_listener_hears_that_older_events_are_deleted(ledger: Ledger) -> None:
    score(ledger, "s1")
    ServiceEvents(ledger).sweep(NOON + timedelta(seconds=1))
    score(ledger, "s2")

    assert heard(ledger, 0) == {"type": "events.missed", "oldest_event_id": 4}
    assert heard(ledger, 3)["type"] == "scoring.completed"
    assert heard(ledger, 4)["session_id"] == "s2"


def test_nothing_is_missed_behind_evaluations(ledger: Ledger) -> None:
    announced = Announcement("i", "evaluation.quality_risk", MARCH_1, "acme", "s", None, 1, "{}")
    EventStore(ledger).record(MARCH_1, [announced], NOON)
    score(ledger, "s1")

    assert heard(ledger, 0)["type"] == "scoring.started"


def test_the_poller_goes_on_after_a_failure_of_the_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failures = ServiceEvents.after, iter([1, 1, 1])

    def failing(*args: Any, **options: Any) -> Any:
        if next(failures, None):
            raise LedgerLockedError("busy")
        return original(*args, **options)

    monkeypatch.setattr(ServiceEvents, "after", failing)
    assert heard(ledger, None, "s1")["session_id"] == "s1"
