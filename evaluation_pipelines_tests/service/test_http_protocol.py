"""How an answer goes over the wire: in one piece if it is made at once, else as it is made."""

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from evaluation_pipelines.service.http_protocol import BoundedHttpProtocol

_HEADERS = [(b"content-length", b"4")]


class _Wire(asyncio.Transport):
    """The other end of a connection: what reaches it, and whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.is_ended = False
        self._changed = asyncio.Event()

    def write(self, data: Any) -> None:
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

    def is_closing(self) -> bool:
        return self.is_ended


def _connected(app: Any) -> tuple[BoundedHttpProtocol, _Wire]:
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    config.load()
    protocol = BoundedHttpProtocol(config=config, server_state=ServerState(), app_state={})
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
