"""A pooler of connections to PostgreSQL: each transaction gets another server process."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Thread

import sqlalchemy as sa

_ENCRYPTION = (80877103, 80877104)
_ANSWERED = (b"Q", b"S")


@contextmanager
def pooler(url: str) -> Iterator[str]:
    """Yield the URL of a pooler in front of the server of another one."""
    target = sa.make_url(url)
    path = f"{target.query['host']}/.s.PGSQL.5432"
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Thread(target=_accept, args=(listener, path), daemon=True).start()
        host, port = listener.getsockname()
        shown = target.set(host=host, port=port).difference_update_query(["host"])
        yield shown.render_as_string(hide_password=False)


def _accept(listener: socket.socket, path: str) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            client, _ = listener.accept()
            Thread(target=_serve, args=(client, path), daemon=True).start()


def _serve(client: socket.socket, path: str) -> None:
    with ExitStack() as stack, suppress(OSError):
        stack.enter_context(client)
        servers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        startup = _startup(client)
        for server, told in zip(servers, (client, None), strict=True):
            server.connect(path)
            server.sendall(startup)
            _relay(server, told)
        turn, status = 1, b"I"
        while True:
            message = _message(client)
            if status == b"I":
                turn, status = 1 - turn, b"T"
            servers[turn].sendall(message)
            if message[:1] in _ANSWERED:
                status = _relay(servers[turn], client)


def _startup(client: socket.socket) -> bytes:
    """Return the first packet of a client, which first asks for encryption."""
    while True:
        size = _read(client, 4)
        rest = _read(client, struct.unpack("!i", size)[0] - 4)
        if struct.unpack("!i", rest[:4])[0] not in _ENCRYPTION:
            return size + rest
        client.sendall(b"N")


def _relay(server: socket.socket, client: socket.socket | None) -> bytes:
    """Pass answers on until the server is ready; return whether a transaction is open."""
    while True:
        message = _message(server)
        if client is not None:
            client.sendall(message)
        if message[:1] == b"Z":
            return message[5:6]


def _message(source: socket.socket) -> bytes:
    head = _read(source, 5)
    return head + _read(source, struct.unpack("!i", head[1:])[0] - 4)


def _read(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise ConnectionError
        found += more
    return found
