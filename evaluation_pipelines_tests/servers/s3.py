"""An S3 of the tests' own (``moto``), and a proxy before it that fails as networks do."""

import http.client
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

BUCKET = "tests"
SECRET = "never-shown-4711"  # noqa: S105 - of no account
"""The secret key that clients sign with."""

SLOW_S = 1.0
"""What a slow answer takes; clients of the tests wait for less."""

_ERRORS = {
    "403": (403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"),
    "429": (429, b"<Error><Code>TooManyRequests</Code><Message>wait</Message></Error>"),
    "500": (500, b"<Error><Code>InternalError</Code><Message>try again</Message></Error>"),
    "503": (503, b"<Error><Code>SlowDown</Code><Message>reduce your rate</Message></Error>"),
}


def variables(endpoint: str) -> dict[str, str]:
    """Return the environment of a client."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


_PUTTING, _put_object = Lock(), S3Response.put_object


def _put_alone(response: S3Response) -> Any:
    """Put an object. Moto looks for it first and stores it later, which S3 does in one step."""
    with _PUTTING:
        return _put_object(response)


@contextmanager
def running_server() -> Iterator[str]:
    """Start an S3 with the bucket ``tests``, and yield its address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        with patch.object(S3Response, "put_object", _put_alone):
            yield f"http://{host}:{port}"
    finally:
        server.stop()


class FaultyServer(ThreadingHTTPServer):
    """Passes requests on to a server; ``faults`` are what happens to the next ones.

    A number is answered with that status and not passed on. ``cut`` ends within the answer, of
    ``lost`` there is no answer at all, and ``slow`` is answered late: all three are carried out.
    ``methods`` are the requests that faults are for. With ``always`` every one fails so.
    """

    daemon_threads = True
    if TYPE_CHECKING:
        RequestHandlerClass: type[BaseHTTPRequestHandler]

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream.removeprefix("http://")
        self.faults: deque[str] = deque()
        self.methods: Sequence[str] = ("GET", "HEAD", "PUT", "POST", "DELETE")
        self.always: str | None = None
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.server_port}"

    def next_fault(self, method: str) -> str:
        """Return the fault of a request; an empty text if there is none."""
        self.requests += 1
        if method not in self.methods:
            return ""
        return self.always or (self.faults.popleft() if self.faults else "")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyServer

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""

    def _pass_on(self) -> None:
        fault = self.server.next_fault(self.command)
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault in _ERRORS:
            self._answer(*_ERRORS[fault], {})
            return
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        connection.request(self.command, self.path, sent, dict(self.headers))
        found = connection.getresponse()
        content = found.read()
        connection.close()
        if fault == "lost":
            self.close_connection = True
            return
        if fault == "slow":
            time.sleep(SLOW_S)
        self._answer(found.status, content, dict(found.headers), is_cut=fault == "cut")

    def _answer(
        self, status: int, content: bytes, headers: dict[str, str], *, is_cut: bool = False
    ) -> None:
        left_out = ("content-length", "connection", "transfer-encoding", "date", "server")
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in left_out:
                self.send_header(name, value)
        length = headers.get("Content-Length", len(content))
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if is_cut else content)
        self.close_connection = self.close_connection or is_cut

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815


@contextmanager
def faulty(upstream: str) -> Iterator[FaultyServer]:
    """Start a proxy before a server."""
    proxy = FaultyServer(upstream)
    thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
