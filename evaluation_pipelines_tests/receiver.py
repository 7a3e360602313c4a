"""A webhook on this machine: takes what is posted to it and keeps it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, given after a delay."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0


class Receiver:
    """What was posted: requests as (path, content type, decoded JSON), oldest first.

    ``bodies`` has the bytes and ``headers`` the headers of each; ``answer`` returns the answer to a
    body.
    """

    def __init__(self, url: str, answer: Callable[[bytes], Reply]) -> None:
        self.url = url
        self.requests: list[tuple[str, str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer = answer

    @property
    def texts(self) -> list[str]:
        """The ``text`` of every alert."""
        return [body["text"] for _, _, body in self.requests]


@contextmanager
def open_receiver(status: int = 200) -> Iterator[Receiver]:
    """Listen on a free port of 127.0.0.1 and answer every post with ``status``.

    A redirect leads back to the same address, where a GET succeeds.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body, kind = self.rfile.read(length), self.headers["Content-Type"]
            decoded = json.loads(body) if kind == "application/json" else None
            receiver.requests.append((self.path, kind, decoded))
            receiver.bodies.append(body)
            receiver.headers.append(dict(self.headers))
            reply = receiver.answer(body)
            time.sleep(reply.delay_s)
            self.send_response(reply.status)
            if 300 <= reply.status < 400:
                self.send_header("Location", receiver.url)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(reply.body)

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook", lambda _: Reply(status))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
