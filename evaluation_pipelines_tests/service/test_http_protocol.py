"""How an answer goes over the wire: in one piece if it is made at once, else as it is made."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from evaluation_pipelines.service.serve import BoundedHttpProtocol

_HEADERS = [(b"content-length", b"4")]
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"


class _Wire(asyncio.Transport):
    """The other end of a connection: what reaches it, and whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.is_ended = self.is_half_closed = False
        self._changed = asyncio.Event()

    def write(self, data: Any) -> None:
        if self.is_half_closed:
            raise RuntimeError("Cannot call write() after write_eof()")
        self.pieces.append(bytes(data))
        self._changed.set()

    def close(self) -> None:
        self.is_ended = True
        self._changed.set()

    async def until(self, is_reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_reached():
                await self._changed.wait()
                self._changed.clear()

    async def until_pieces(self, number: int) -> None:
        await self.until(lambda: len(self.pieces) >= number)

    async def until_sent(self, end: bytes) -> None:
        await self.until(lambda: b"".join(self.pieces).endswith(end))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def write_eof(self) -> None:
        self.is_half_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_ended


class _Counted(BoundedHttpProtocol):
    """Counts the bytes that are parsed: without limits a packet of many would take long."""

    parsed_bytes = 0

    def _parse(self, piece: bytes) -> None:
        self.parsed_bytes += len(piece)
        super()._parse(piece)


def _connected(app: Any) -> tuple[_Counted, _Wire]:
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    config.load()
    protocol = _Counted(config=config, server_state=ServerState(), app_state={})
    wire = _Wire()
    wire.set_protocol(protocol)
    protocol.connection_made(wire)
    return protocol, wire


async def _at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": b"done"})


def test_an_answer_made_at_once_is_one_piece_and_the_next_one_another() -> None:
    async def pieces() -> list[bytes]:
        protocol, wire = _connected(_at_once)
        for number in (1, 2):
            protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await wire.until_pieces(number)
        return wire.pieces

    first, second = asyncio.run(pieces())
    assert first == second
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\ndone")


def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    async def pieces() -> list[bytes]:
        may_end = asyncio.Event()

        async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await may_end.wait()
            await send({"type": "http.response.body", "body": b"do", "more_body": True})
            await send({"type": "http.response.body", "body": b"ne"})

        protocol, wire = _connected(slow)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wire.until_sent(b"\r\n\r\n")
        may_end.set()
        await wire.until_sent(b"done")
        return wire.pieces

    head, *body = asyncio.run(pieces())
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == [b"do", b"ne"]


def test_an_answer_without_a_body_is_sent_before_the_connection_ends() -> None:
    async def answered() -> _Wire:
        protocol, wire = _connected(_at_once)
        request = b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        protocol.data_received(request)
        await wire.until(wire.is_closing)
        return wire

    wire = asyncio.run(answered())
    assert b"".join(wire.pieces).endswith(b"connection: close\r\n\r\n")


async def _never(_scope: Scope, _receive: Receive, _send: Send) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"a: b\r\n" * 99 + b"\r\n", 200),  # 100 lines with that of the host
        (HEAD + b"a: b\r\n" * 100 + b"\r\n", 431),
        (HEAD + b"a: " + b"b" * 37 * 1024, 431),
        (HEAD + b"a" * 37 * 1024, 431),
        (b"GET /" + b"a" * 33 * 1024, 431),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * 101, 431),
        (CHUNKED + b"1;" + b"a" * 300_000, 431),
        (HEAD + b"a: " + b"b" * 30 * 1024 + b"\r\n\r\n", 200),
    ],
    ids=["100", "lines", "value", "name", "path", "trailer", "extension", "30 kB"],
)
def test_a_head_has_limits(sent: bytes, status: int) -> None:
    async def answered() -> tuple[_Wire, int]:
        protocol, wire = _connected(_at_once)
        for start in range(0, len(sent), 256 * 1024):  # what a transport hands over at most
            protocol.data_received(sent[start : start + 256 * 1024])
        await wire.until_pieces(1)
        protocol.connection_lost(None)
        return wire, protocol.parsed_bytes

    wire, parsed_bytes = asyncio.run(answered())
    assert b"".join(wire.pieces).split()[1] == b"%d" % status
    # A head of 32 KiB, the lines around it, and the rest of a piece of 4 KiB.
    assert parsed_bytes <= (32 + 4 + 4) * 1024


def test_too_many_requests_in_one_packet_leave_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answered() -> _Wire:
        protocol, wire = _connected(_at_once)
        protocol.data_received((HEAD + b"\r\n") * 200)
        for _ in range(50):  # longer than all of them would take
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        return wire

    wire = asyncio.run(answered(), debug=True)
    assert [piece[:12] for piece in wire.pieces] == [b"HTTP/1.1 503"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_requests_after_the_first_are_limited_too() -> None:
    async def answered() -> tuple[_Wire, int, int]:
        protocol, wire = _connected(_never)
        protocol.data_received((HEAD + b"\r\n") * 6000)
        begun = len(protocol.pipeline)
        await wire.until_pieces(1)
        protocol.connection_lost(None)
        return wire, protocol.parsed_bytes, begun

    wire, parsed_bytes, begun = asyncio.run(answered())
    assert wire.pieces[0].startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5\r\n" in wire.pieces[0]
    assert b'{"error":{"code":"overloaded",' in wire.pieces[0]
    assert parsed_bytes <= 4 * 1024  # the first piece
    assert begun <= 16 + 1  # that may wait, and the one that is refused


def test_the_end_waits_for_no_thread_that_still_computes() -> None:
    program = (
        "import time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from evaluation_pipelines.service import serve\n"
        "ThreadPoolExecutor(1).submit(time.sleep, 600)\n"
        "serve._end()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
