"""A webhook on this machine: takes what is posted to it and keeps it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Receiver:
    """What was posted: requests as (path, content type, decoded JSON), oldest first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, str, Any]] = []

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
            body = json.loads(self.rfile.read(length))
            receiver.requests.append((self.path, self.headers["Content-Type"], body))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
