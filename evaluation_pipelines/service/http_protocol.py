"""The HTTP protocol of uvicorn, with three changes.

Connections whose request never gets complete are ended. The head of an answer is sent together with
its body: two packets would wake a client twice. A connection that ends while a body arrives is read
on: a client that writes would get an error, and never see the answer (RFC 9112, section 9.6).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS = 20.0
"""Seconds within which the head of a request must have arrived."""

LINGER_SECONDS = 20.0
"""Seconds within which the rest of a body that is not read must have arrived."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection on which the head of a request takes too long.

    The server itself limits only the time between requests; bodies are limited where they are
    read.
    """

    head_seconds = HEAD_SECONDS
    linger_seconds = LINGER_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._stop_waiting()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
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
            cycle.transport = _AnswerTransport(self.transport, self.loop, self._end)

    def on_message_complete(self) -> None:
        """End a connection that only waited for the rest of the body."""
        super().on_message_complete()
        if self._linger_timer is not None:
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the protocol of WebSockets."""
        self._stop_waiting()
        super().handle_websocket_upgrade()

    @property
    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is None or cycle.response_complete

    def _end(self) -> None:
        """Send nothing more, and end the connection when the body has arrived."""
        if not self.cycle.more_body:
            self.transport.close()
        elif self._linger_timer is None:
            self.transport.write_eof()
            self._linger_timer = self.loop.call_later(self.linger_seconds, self.transport.close)

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

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        end: Callable[[], None],
    ) -> None:
        super().__init__()
        self._transport, self._loop, self._end = transport, loop, end
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
        self._end()

    def is_closing(self) -> bool:
        """Return True if the connection is ending."""
        return self._transport.is_closing()

    def _send_kept(self) -> None:
        if self._kept:
            self._transport.write(self._kept)
            self._kept = b""
