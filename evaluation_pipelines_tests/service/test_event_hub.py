"""Delivery of events: from other processes, to slow listeners and to many."""

import asyncio
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect

from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.service import events as service_events
from evaluation_pipelines.service.events import EventHub, parse_channel
from evaluation_pipelines.storage.ledger.errors import LedgerLockedError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.judging.ledger.score_workers import score_all
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.event_steps import (
    ALL,
    URL,
    received,
    score,
    types,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import MARCH_1, NOON
from evaluation_pipelines_tests.workplace import Workplace


def test_the_ledger_is_asked_at_least_each_second() -> None:
    assert service_events._POLL_S <= 1


def alert_now(url: str, number: int) -> None:
    """Commit events, each with the time just before its commit."""
    ledger = open_ledger(url)
    for _ in range(number):
        now = time.time_ns() // 1000
        event = {"type": "alert.raised", "timestamp_us": now, "payload": "{}"}
        ServiceEvents(ledger).append([event])
        time.sleep(0.3)
    ledger.close()


@pytest.mark.slow
def test_events_of_another_process_arrive_within_two_seconds(
    service: Service, workplace: Workplace
) -> None:
    spawn = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=spawn) as pool,
        service.client() as client,
        client.websocket_connect(URL.format("alerts")) as socket,
    ):
        written = pool.submit(alert_now, workplace.settings.ledger_url, 20)
        for _ in range(20):
            committed_us = socket.receive_json()["timestamp_us"]
            assert time.time_ns() // 1000 - committed_us < 2_000_000
        written.result()


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
    monkeypatch.setattr(service_events, "_MAX_PENDING", 5)
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
    expected = [each.event_id for each in ServiceEvents(ledger).after(0) if channel.includes(each)]
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


def test_a_listener_hears_that_older_events_are_deleted(ledger: Ledger) -> None:
    score(ledger, "s1")
    ServiceEvents(ledger).sweep(NOON + timedelta(seconds=1))
    score(ledger, "s2")

    async def first(after: int) -> dict[str, Any]:
        hub = EventHub(ledger)
        async with hub.running():
            messages = hub.messages(parse_channel("sessions", None), after)
            try:
                return dict(json.loads(await anext(messages)))
            finally:
                await messages.aclose()

    assert asyncio.run(first(0)) == {"type": "events.missed", "oldest_event_id": 4}
    assert asyncio.run(first(3))["type"] == "scoring.completed"
    assert asyncio.run(first(4))["session_id"] == "s2"


def test_nothing_is_missed_behind_evaluations(ledger: Ledger) -> None:
    announced = Announcement("i", "evaluation.quality_risk", MARCH_1, "acme", "s", None, 1, "{}")
    EventStore(ledger).record(MARCH_1, [announced], NOON)
    score(ledger, "s1")

    async def first() -> dict[str, Any]:
        hub = EventHub(ledger)
        async with hub.running():
            return dict(json.loads(await anext(hub.messages(parse_channel("sessions", None), 0))))

    assert asyncio.run(first())["type"] == "scoring.started"


def test_the_poller_goes_on_after_a_failure_of_the_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failures = ServiceEvents.after, iter([1, 1, 1])

    def failing(*args: Any, **options: Any) -> Any:
        if next(failures, None):
            raise LedgerLockedError("busy")
        return original(*args, **options)

    async def listen() -> str:
        hub = EventHub(ledger, poll_seconds=0.01)
        async with hub.running():
            messages = hub.messages(parse_channel("sessions", None), None)
            coming = asyncio.create_task(anext(messages))
            await asyncio.wait_for(hub._is_started.wait(), 10)
            await asyncio.to_thread(score, ledger, "s1")
            try:
                return await coming
            finally:
                await messages.aclose()

    monkeypatch.setattr(ServiceEvents, "after", failing)
    assert json.loads(asyncio.run(listen()))["session_id"] == "s1"


def test_two_hundred_listeners_get_every_event(service: Service, workplace: Workplace) -> None:
    with served(service) as port:
        url = ALL.replace("8400", str(port))

        async def listen(ready: asyncio.Semaphore) -> list[str]:
            async with connect(url, compression=None, open_timeout=60) as socket:
                ready.release()
                return [json.loads(await socket.recv())["session_id"] for _ in range(10)]

        async def listen_all() -> list[list[str]]:
            ready = asyncio.Semaphore(0)
            listening = [asyncio.create_task(listen(ready)) for _ in range(200)]
            for _ in listening:
                await ready.acquire()
            for number in range(5):
                await asyncio.to_thread(score, workplace.ledger, f"s{number}")
            return await asyncio.wait_for(asyncio.gather(*listening), 60)

        heard = asyncio.run(listen_all())
    assert heard == [[f"s{number}" for number in range(5) for _ in range(2)]] * 200


@contextmanager
def served(service: Service) -> Iterator[int]:
    """Serve on a free port of this machine in a thread; yield the port."""
    config = uvicorn.Config(
        service.app, host="localhost", port=0, log_config=None, timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
