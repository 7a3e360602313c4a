"""Slow, cut and too many requests, a full disk: the service answers, and goes on."""

import asyncio
import errno
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message
from websockets.sync.client import connect

from evaluation_pipelines.access.domain.keys import LOCAL_CALLER, Caller, Role
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.limits import Connections, limited
from evaluation_pipelines.service.receiver import receiver
from evaluation_pipelines.service.receiver.receiver import holder_of
from evaluation_pipelines.service.receiver.requests import InFlight
from evaluation_pipelines.service.serve import BoundedHttpProtocol
from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.live_service import (
    everything,
    server_in_thread,
    status_of,
)
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import session

HEAD = b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
KIB, MIB = 1024, 1024 * 1024
Impatient: TypeAlias = tuple[Service, int]
"""A service and its port."""
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


# -- slow and cut ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Impatient]:
    """A server that waits a tenth of a second for a head, and three for a body; its port."""
    folder = tmp_path_factory.mktemp("impatient")
    with pytest.MonkeyPatch.context() as patch, open_workplace(folder) as workplace:
        patch.setattr(receiver, "BODY_SECONDS", 0.3)
        service = Service(workplace)
        with server_in_thread(service.app, head_seconds=0.1) as port:
            yield service, port


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        yield client


def test_a_websocket_is_no_head_that_never_ends(impatient: Impatient) -> None:
    with (
        connect(f"ws://localhost:{impatient[1]}/api/v1/events?channel=sessions") as listener,
        pytest.raises(TimeoutError),
    ):
        listener.recv(timeout=0.4)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/lo", HEAD])
def test_a_head_that_never_ends_is_not_waited_for(impatient: Impatient, sent: bytes) -> None:
    with connected(impatient[1]) as client:
        client.sendall(sent)
        assert everything(client) == b""


def test_a_second_head_that_never_ends_is_not_waited_for_either(
    impatient: Impatient,
) -> None:
    with connected(impatient[1]) as client:
        client.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert status_of(client.recv(65536)) == 200
        client.sendall(HEAD)
        assert everything(client) == b""


def test_a_body_that_never_ends_is_408(impatient: Impatient) -> None:
    with connected(impatient[1]) as client:
        client.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        answer = everything(client)
    assert status_of(answer) == 408
    assert b"did not arrive within 0.3 seconds" in answer


@pytest.mark.parametrize("path", ["/v1/logs", "/api/v1/gateway"])
def test_who_sends_too_much_at_once_reads_the_413_after_it(service: Service, path: str) -> None:
    size = 17 * MIB  # more than the buffers of both ends
    head = HEAD.replace(b"/v1/logs", path.encode())
    with server_in_thread(service.app) as port, connected(port) as client:
        # A connection that ends while it is written to is an error in some programs: they repeat.
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
        assert status_of(client.recv(65536)) == 413
        client.sendall(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
        assert status_of(everything(client)) == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [(b"Host: localhost\r\n", 413), (b"Host: elsewhere\r\n", 403)],
    ids=["size", "host"],
)
def test_who_sends_too_much_and_wants_no_second_request_reads_the_answer_too(
    service: Service, host: bytes, status: int
) -> None:
    size = 17 * MIB
    head = HEAD.replace(b"Host: localhost\r\n", host)
    with server_in_thread(service.app) as port, connected(port) as client:
        closing = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
        client.sendall(head + closing + bytes(size))
        assert status_of(everything(client)) == status


def drip(client: socket.socket) -> None:
    for _ in range(100):
        client.sendall(b"x")
        time.sleep(0.05)


def test_who_never_ends_a_body_after_the_answer_is_not_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedHttpProtocol, "linger_seconds", 0.3)
    with server_in_thread(service.app) as port, connected(port) as client:
        head = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (17 * MIB)
        client.sendall(head)
        assert status_of(everything(client)) == 413
        with pytest.raises(ConnectionError):
            drip(client)


def test_a_body_that_is_cut_is_stored_nowhere(impatient: Impatient) -> None:
    service, port = impatient
    body = session("cut")
    with connected(port) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-5])
    with connected(port) as client:
        client.sendall(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
        assert status_of(everything(client)) == 200
    assert list(service.workplace.landing.root.rglob("*.jsonl")) == []


def test_other_bodies_are_limited_too() -> None:
    async def received(messages: list[Message], **limits: float) -> bytes:
        async def receive() -> Message:
            await asyncio.sleep(limits.get("pause", 0))
            return messages.pop(0) if messages else await asyncio.sleep(60, {})

        receive_within = limited(receive, 4, limits.get("seconds", 60))
        content, has_more = b"", True
        while has_more:
            message = await receive_within()
            content, has_more = content + message["body"], message["more_body"]
        return content

    def pieces(*contents: bytes) -> list[Message]:
        last = len(contents) - 1
        return [
            {"type": "http.request", "body": content, "more_body": number < last}
            for number, content in enumerate(contents)
        ]

    assert asyncio.run(received(pieces(b"ab", b"cd"))) == b"abcd"
    with pytest.raises(ServiceError) as refusal:
        asyncio.run(received(pieces(b"ab", b"cde")))
    assert refusal.value.status_code == 413
    with pytest.raises(ServiceError) as refusal:
        asyncio.run(received(pieces(b"ab", b"cd")[:1], seconds=0.01))
    assert refusal.value.status_code == 408
    with pytest.raises(ServiceError) as refusal:  # the time of all pieces counts
        asyncio.run(received(pieces(b"a", b"b", b"c"), seconds=1, pause=0.6))
    assert refusal.value.status_code == 408


# -- too many connections --------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "limit_of_address"), [(100, 5), (5, 100)], ids=["own", "all"])
def test_a_connection_that_waits_makes_room_and_one_at_work_does_not(
    service: Service, monkeypatch: pytest.MonkeyPatch, limit: int, limit_of_address: int
) -> None:
    few = Connections(limit=limit, limit_of_address=limit_of_address)
    monkeypatch.setattr(BoundedHttpProtocol, "open_connections", few)
    with server_in_thread(service.app) as port, ExitStack() as all_open:
        waiting = [all_open.enter_context(connected(port)) for _ in range(20)]
        with connected(port) as client:
            client.sendall(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
            assert status_of(everything(client)) == 200
        assert everything(waiting[0]) == b""
        for _ in range(5):
            working = all_open.enter_context(connected(port))
            working.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert status_of(working.recv(100)) == 100
        with connected(port) as client:
            refused = everything(client)
    assert status_of(refused) == 503
    assert b"retry-after: 5\r\n" in refused
    assert b'{"error":{"code":"overloaded",' in refused


class Open:
    """A connection that must not be ended."""

    def end(self) -> None:
        """Fail."""
        raise AssertionError


def test_a_trusted_proxy_speaks_for_many_addresses() -> None:
    some = Connections(["10.0.0.1"], limit=3, limit_of_address=1)
    first, *others = (Open() for _ in range(4))
    some.works(first)
    for connection in others:
        assert some.admit(connection, "10.0.0.1")
        some.works(connection)
    assert not some.admit(first, "10.0.0.1")
    some.left(others[0])
    assert some.admit(first, "10.0.0.2")
    some.works(first)
    assert not some.admit(others[0], "10.0.0.2")


def test_each_connection_that_has_ended_makes_room_for_one() -> None:
    some, (first, second, third, fourth) = Connections(limit_of_address=2), (Open() for _ in "abcd")
    for connection in (first, second):
        assert some.admit(connection, "10.0.0.1")
        some.works(connection)
    some.left(first)
    assert some.admit(third, "10.0.0.1")
    some.works(third)
    assert not some.admit(fourth, "10.0.0.1")


# -- too much at once ------------------------------------------------------------------------------


def test_a_caller_may_hold_a_quarter_and_all_together_everything() -> None:
    in_flight = InFlight(4 * MIB)
    claims = [in_flight.claim(caller) for caller in "abcd"]
    for claim in claims:
        claim.grow(MIB - 64 * KIB)
    with pytest.raises(ServiceError) as refusal:
        in_flight.claim("a")
    assert (refusal.value.status_code, refusal.value.headers) == (429, {"Retry-After": "2"})
    with pytest.raises(ServiceError) as refusal:
        in_flight.claim("e")
    assert (refusal.value.status_code, refusal.value.headers) == (503, {"Retry-After": "2"})

    with claims[0]:
        pass
    with in_flight.claim("a"), in_flight.claim("e"):
        assert in_flight.total_bytes == 3 * MIB + 128 * KIB
    for claim in claims[1:]:
        with claim:
            pass
    assert in_flight.total_bytes == 0
    assert in_flight._of_caller == {}  # else each caller that ever sent would take memory


def test_a_claim_that_was_refused_holds_what_it_held() -> None:
    in_flight = InFlight(MIB)
    with pytest.raises(ServiceError), in_flight.claim("a") as claim:
        claim.grow(MIB)
    assert in_flight.total_bytes == 0


def test_memory_is_held_by_a_key_or_a_network_of_addresses() -> None:
    def holder(address: str, caller: Caller = LOCAL_CALLER) -> str:
        return holder_of(Request({"type": "http", "client": (address, 1)}), caller)

    first, second = (Caller("ada", None, Role.INGEST, key_id) for key_id in ("1", "2"))
    assert holder("10.0.0.1", first) == holder("10.0.0.2", replace(first, name="a person"))
    assert holder("10.0.0.1", first) != holder("10.0.0.1", second)
    assert holder("2001:db8::1") == holder("2001:db8::2") != holder("2001:db8:0:1::1")


# -- disk ------------------------------------------------------------------------------------------


@contextmanager
def files_up_to(size_bytes: int) -> Iterator[None]:
    """Let the system refuse what would make a file larger, as it does when a disk is full."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def test_a_full_disk_is_503_and_the_service_is_good_again_after(service: Service) -> None:
    body = session("s")
    with TestClient(service.app, "http://localhost", client=("127.0.0.1", 1)) as client:
        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/logs", content=body, headers=headers).status_code == 200
        with files_up_to(len(body) + 100):
            full = client.post("/v1/logs", content=session("t"), headers=headers)
        assert full.status_code == 503
        assert full.headers["retry-after"] == "30"
        assert "File too large" in full.json()["message"]
        assert client.post("/v1/logs", content=session("u"), headers=headers).status_code == 200

    report = service.workplace.ingest()
    assert (report.counts.events, report.counts.quarantined) == (4, 0)
    assert set(service.workplace.landed()["session_id"]) == {"s", "u"}


def record(content: bytes, folder: str = "received/_", ending: str = "jsonl") -> ReceivedRecord:
    return ReceivedRecord(folder, ending, content)


def test_nothing_is_left_of_what_could_not_be_written(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, MIB, lambda: NOON)
    assert files.append([record(b"a\n"), record(b"b\n", "received/acme")]) == [None, None]
    with files_up_to(5):
        first, second, third = files.append(
            [record(b"c\n"), record(b"d" * 9), record(b"e\n", "received/acme")]
        )
    assert isinstance(first, OSError)
    assert first.errno == errno.EFBIG
    assert second is first  # they share a file and its sync
    assert third is None
    files.close()
    assert contents(tmp_path) == {"received/_": [b"a\n"], "received/acme": [b"b\ne\n"]}


def contents(root: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for path in sorted(root.rglob("*.jsonl")):
        folder = path.parent.parent.relative_to(root).as_posix()
        found.setdefault(folder, []).append(path.read_bytes())
    return found


def test_files_are_named_after_their_hour_and_begun_anew_each_hour(tmp_path: Path) -> None:
    times = [NOON, NOON + timedelta(minutes=59), NOON + timedelta(hours=12)]
    files = ReceivedFiles(tmp_path, MIB, lambda: times.pop(0))
    for content in (b"a", b"b", b"c"):
        assert files.append([record(content)]) == [None]
    files.close()
    first, second = sorted((tmp_path / "received" / "_").rglob("*.jsonl"))
    assert (first.parent.name, first.name[:3], first.read_bytes()) == ("2026-12-01", "12-", b"ab")
    assert (second.parent.name, second.name[:3], second.read_bytes()) == ("2026-12-02", "00-", b"c")


def test_a_limited_number_of_files_is_open_at_once(tmp_path: Path) -> None:
    files = ReceivedFiles(tmp_path, MIB, lambda: NOON)
    for number in [*range(200), 199, 0]:
        assert files.append([record(b"x", f"received/{number}")]) == [None]
    assert len(files._open) == 128
    files.close()
    found = contents(tmp_path)
    assert len(found) == 200
    assert (found["received/199"], found["received/0"]) == ([b"xx"], [b"x", b"x"])
