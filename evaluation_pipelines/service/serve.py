"""The process of the service: addresses to listen on, and a server with limits.

A head has limits of time, bytes and lines, and connections are limited. The head of an answer is
sent together with its body: two packets would wake a client twice. A connection that ends while a
request arrives is read on: a client that writes would get an error, and never see the answer (RFC
9112, section 9.6).
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

# The first page needs it, and an import waits for each thread that computes meanwhile.
import scipy.special  # noqa: F401
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.rubric_files import log_rubric_faults
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.errors import ServiceError, error_response
from evaluation_pipelines.service.installation import LOG, Installation
from evaluation_pipelines.service.limits import SECONDS_TO_STOP, Connections, is_loopback
from evaluation_pipelines.service.live import Keeper, Live, is_for_one_person
from evaluation_pipelines.storage.queries import remove_spilled
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.prices import read_own_prices

HEAD_SECONDS = 20.0
"""Seconds within which the head of a request must have arrived."""

LINGER_SECONDS = 20.0
"""Seconds within which the rest of a body that is not read must have arrived."""


MAX_HEAD_BYTES, MAX_HEAD_LINES = 32 * 1024, 100
MAX_PIPELINED = 16
"""Requests that may follow on a connection before the first is answered."""

_PIECE_BYTES = 4 * 1024
"""How much of a head is parsed before its size is looked at again."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses heads that are too large or take too long, and connections beyond the limits.

    The server itself limits only the time between requests; bodies are limited where they are
    read. Trailers, which follow a body in chunks, count as its head does, and are not kept.
    """

    head_seconds = HEAD_SECONDS
    linger_seconds = LINGER_SECONDS
    open_connections = Connections()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._is_head = False
        self._head_bytes = self._head_lines = self._unread_bytes = 0
        self._has_progress = False
        self._refusal: ServiceError | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        if self.open_connections.admit(self, self.client[0] if self.client else ""):
            self._await_head()
        else:
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._stop_waiting()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self.open_connections.left(self)
        super().connection_lost(exc)

    def end(self) -> None:
        """End a connection that waits, to make room."""
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and wait for the rest of a head that has begun."""
        cycle: RequestResponseCycle | None = self.cycle
        is_body = not self._is_head and cycle is not None and cycle.more_body
        size = max(len(data), 1) if is_body else _PIECE_BYTES
        for start in range(0, len(data), size):
            if not self._is_ours or self.transport.is_closing() or self._refusal is not None:
                return
            self._parse(data[start : start + size])
        if self._is_ours and self._is_between_requests and self.timeout_keep_alive_task is None:
            self._await_head()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._is_head, self._head_bytes, self._head_lines = True, 0, 0
        self._has_progress = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Keep a part of the address that is asked for."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a line of a head, but not of a trailer."""
        self._head_lines += 1
        self._count(len(name) + len(value))
        if self._is_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._has_progress = True
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._stop_waiting()
        self._is_head, self._has_progress = False, True
        before: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        cycle: RequestResponseCycle = self.cycle  # the same as before for a WebSocket
        if cycle is not before:
            self.open_connections.works(self)
            cycle.transport = _AnswerTransport(self.transport, self.loop, self._end)

    def on_message_complete(self) -> None:
        """End a connection that only waited for the rest of the body."""
        super().on_message_complete()
        if self._linger_timer is not None:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self._is_between_requests:
            self.open_connections.waits(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, or is too large."""
        if self._refusal is None:
            self._refuse(ServiceError(400, "invalid_request", msg))
        else:
            self._refuse(self._refusal)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the protocol of WebSockets."""
        self._stop_waiting()
        self.open_connections.left(self)
        super().handle_websocket_upgrade()

    @property
    def _is_ours(self) -> bool:
        return self.transport.get_protocol() is self  # a WebSocket has another one

    @property
    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is None or cycle.response_complete

    def _parse(self, piece: bytes) -> None:
        """Parse a piece; what the parser keeps to itself, an unfinished line, is counted, too."""
        self._has_progress = False
        super().data_received(piece)
        self._unread_bytes = 0 if self._has_progress else self._unread_bytes + len(piece)
        if self._head_bytes + self._unread_bytes > MAX_HEAD_BYTES and self._refusal is None:
            self._refuse(_HEAD_TOO_LARGE)

    def _count(self, size_bytes: int) -> None:
        """Count a part of a head; the parser stops at the error and asks for a 400."""
        self._has_progress = True
        self._head_bytes += size_bytes
        if self._head_bytes > MAX_HEAD_BYTES or self._head_lines > MAX_HEAD_LINES:
            self._refusal = _HEAD_TOO_LARGE
        elif len(self.pipeline) > MAX_PIPELINED:
            self._refusal = _TOO_MANY
        if self._refusal is not None:
            raise self._refusal

    def _refuse(self, error: ServiceError) -> None:
        """Answer without the application, and read nothing more."""
        self._refusal = error
        self._stop_waiting()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            transport = self._running.transport
            if (
                isinstance(transport, _AnswerTransport) and transport.has_begun
            ):  # what follows would be taken for its body
                self.transport.close()
                return
        response = error_response(error)
        lines = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
        head = STATUS_LINE[error.status_code] + b"".join(lines) + b"connection: close\r\n\r\n"
        self.transport.write(head + response.body)
        self._linger()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _end(self) -> None:
        """Send nothing more, and end the connection when the body has arrived."""
        if not self.cycle.more_body:
            self.transport.close()
        elif self._linger_timer is None:
            self._linger()

    def _linger(self) -> None:
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


_HEAD_TOO_LARGE = ServiceError(
    431,
    "head_too_large",
    f"The head of a request may have {MAX_HEAD_BYTES} bytes and {MAX_HEAD_LINES} lines.",
    "Send fewer or shorter headers. A browser may have to delete its cookies of this address.",
)
_TOO_MANY = ServiceError(
    503,
    "overloaded",
    "Too many requests are in progress, from this address or in total.",
    "Send the request again later.",
    {"Retry-After": "5"},
)


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
        self.has_begun, self._kept = False, b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Send data; if nothing follows the first of it, that is sent a little later."""
        if not self.has_begun:
            self.has_begun, self._kept = True, data
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


_BACKLOG = 2048
_IDLE_SECONDS = 75


class NotReceivedError(UserError):
    """The service was asked to receive telemetry that it has no folder for."""


class ListenError(UserError):
    """An address that cannot be listened on."""


def serve(
    stores: Stores,
    host: str,
    port: int,
    otlp_port: int | None,
    grpc_port: int | None,
    when_listening: Callable[[str], None],
    *,
    builds: bool | None = None,
) -> None:
    """Answer requests until the process is told to stop.

    Args:
        stores: The stores of the installation.
        host: A name or address of this machine.
        port: The port to listen on.
        otlp_port: Another one, which only receives telemetry; ``None`` for none.
        grpc_port: One that receives telemetry over gRPC, or ``None``.
        when_listening: Gets the URL of each port.
        builds: Whether a child process reads, builds and publishes new telemetry; ``None``: if the
            installation is that of one person.

    Raises:
        ListenError: the address is open to other machines and there is no key, or is in use.
        NotReceivedError: there is such a port, and telemetry lands in no folder.
    """
    if (otlp_port or grpc_port) is not None and stores.landing.folder is None:
        raise NotReceivedError(
            f"Telemetry is read from {stores.landing.where()}: this service cannot receive any. "
            "Run it without --otlp and --otlp-grpc, and let a collector write there."
        )
    keys = KeyRing(stores.ledger)
    check_address(host, keys)
    ports = [port] if otlp_port is None else [port, otlp_port]
    sockets = [_listen(host, number) for number in ports]
    named = f"[{host}]" if ":" in host else host
    if grpc_port is not None:
        _listen(host, grpc_port).close()  # for the error: that of the library has no advice
        ports.append(grpc_port)
    for number in ports:
        when_listening(f"http://{named}:{number}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    log_rubric_faults(stores.settings)
    for fault in read_own_prices(stores.settings.prices_path).faults:
        LOG.warning("%s", fault)
    if (why_not := stores.settings.why_no_judge) is not None:
        LOG.warning("no session is scored by a judge: %s", why_not)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    installation = Installation(stores, keys)
    BoundedHttpProtocol.open_connections = Connections(installation.settings.trusted_proxies)
    if builds is None:
        builds = is_for_one_person(stores, keys)
    keeper = Keeper(installation) if builds else None
    grpc_address = None if grpc_port is None else f"{named}:{grpc_port}"
    app = create_app(installation, otlp_port, keeper, grpc_address)
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        log_config=None,
        access_log=False,
        log_level="warning",  # its lines about WebSockets have the query; the guard logs each
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=SECONDS_TO_STOP,
    )
    try:
        _Server(config, app.state.live).run(sockets)
    finally:
        for listener in sockets:
            listener.close()


class _Server(uvicorn.Server):
    """The server; it stops scoring while listeners are still connected."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send listeners what becomes of unfinished judgments, then close all connections."""
        await self._live.stop()
        await super().shutdown(sockets)


def _end(*_: object) -> NoReturn:
    """End the process: the server raises the signal again when it has stopped.

    At once: a thread may still compute a page, for half a minute.
    """
    logging.shutdown()
    remove_spilled()
    os._exit(0)


def check_address(host: str, keys: KeyRing) -> None:
    """Refuse an address that other machines can reach while there are no keys.

    Raises:
        ListenError: with the command that makes a key.
    """
    if not is_loopback(host) and not keys.has_valid_keys():
        raise ListenError(
            f"Other machines can reach {host}, and there is no key: anyone could read and change "
            "everything. Make a key first: evaluation-pipelines keys create admin --role operator "
            "--all-organizations"
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
            opened.listen(_BACKLOG)
        except OSError:
            opened.close()
            raise
    except OSError as error:
        raise ListenError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Use another port: "
            f"evaluation-pipelines serve --port {min(port + 1, 65_535)}. Or end the process that "
            "uses this one."
        ) from None
    return opened
