"""The HTTP protocol of uvicorn, with two changes.

Connections whose request never gets complete are ended, and the head of an answer is sent together
with its body: two packets would wake a client twice.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS = 20.0
"""Seconds within which the head of a request must have arrived."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection on which the head of a request takes too long.

    The server itself limits only the time between requests; bodies are limited where they are
    read.
    """

    head_seconds = HEAD_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head that has begun."""
        super().data_received(data)
        is_ours = self.transport.get_protocol() is self  # a WebSocket has another one
        if is_ours and self._is_between_requests and self.timeout_keep_alive_task is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._stop_waiting()
        before: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        cycle: RequestResponseCycle = self.cycle  # the same as before for a WebSocket
        if cycle is not before:
            cycle.transport = _AnswerTransport(self.transport, self.loop)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the protocol of WebSockets."""
        self._stop_waiting()
        super().handle_websocket_upgrade()

    @property
    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is None or cycle.response_complete

    def _await_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_between_requests:
            self.transport.close()


class _AnswerTransport(asyncio.Transport):
    """What one answer is written to; its head waits for what is written before others run."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._is_new, self._kept = True, b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Send data; if nothing follows the first of it, that is sent a little later."""
        if self._is_new:
            self._is_new, self._kept = False, data
            self._loop.call_soon(self._send_kept)
        else:
            self._transport.write(self._kept + data)
            self._kept = b""

    def close(self) -> None:
        """End the connection when all is sent."""
        self._send_kept()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return True if the connection is ending."""
        return self._transport.is_closing()

    def _send_kept(self) -> None:
        if self._kept:
            self._transport.write(self._kept)
            self._kept = b""
