"""The HTTP protocol of uvicorn, which also ends connections whose request never gets complete."""

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
        super().on_headers_complete()

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
