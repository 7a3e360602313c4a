"""The process of the service: addresses to listen on, and the server."""

import logging
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

import uvicorn

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.rubric_files import log_rubric_faults
from evaluation_pipelines.service.addresses import is_loopback
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.http_protocol import BoundedHttpProtocol
from evaluation_pipelines.service.installation import LOG, Installation
from evaluation_pipelines.service.keeper import Keeper, is_for_one_person
from evaluation_pipelines.service.limits import Connections
from evaluation_pipelines.service.live import Live
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.prices import read_own_prices

_BACKLOG = 2048
_SECONDS_TO_STOP = 20
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
    sockets = [_listen(host, each) for each in ports]
    named = f"[{host}]" if ":" in host else host
    if grpc_port is not None:
        _listen(host, grpc_port).close()  # for the error: that of the library has no advice
        ports.append(grpc_port)
    for each in ports:
        when_listening(f"http://{named}:{each}")
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
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
    )
    try:
        _Server(config, app.state.live).run(sockets)
    finally:
        for opened in sockets:
            opened.close()


class _Server(uvicorn.Server):
    """The server; it stops scoring while listeners are still connected."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send listeners what becomes of unfinished scorings, then close all connections."""
        await self._live.stop()
        await super().shutdown(sockets)


def _end(*_: object) -> NoReturn:
    """End the process in good order: the server raises the signal again when it has stopped."""
    raise SystemExit(0)


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
