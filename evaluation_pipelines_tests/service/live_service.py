"""The service as a process of its own, and as a server in a thread of the test."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import uvicorn

from evaluation_pipelines.service.serve import BoundedHttpProtocol

_PROGRAM = Path(sys.executable).parent / "evaluation-pipelines"
_SECONDS_TO_START = 60


def free_port() -> int:
    """Return a port that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class LiveService:
    """A process of ``evaluation-pipelines serve`` on the data folder ``folder``.

    It only builds with an ``option`` that says so.
    """

    def __init__(self, folder: Path, option: str = "--no-build", **settings: str) -> None:
        self.port = free_port()
        self._log = (folder / f"service-{self.port}.log").open("wb")
        self.process = subprocess.Popen(
            [_PROGRAM, "serve", "--port", str(self.port), option],
            cwd=folder,
            env={**os.environ, "EVAL_DATA_DIR": str(folder), **settings},
            stdout=self._log,
            stderr=self._log,
        )

    def wait(self) -> None:
        """Return when it listens."""
        self._wait(listening=True)

    def wait_until_closed(self) -> None:
        """Return when it takes no new connection."""
        self._wait(listening=False)

    def _wait(self, *, listening: bool) -> None:
        end = monotonic() + _SECONDS_TO_START
        while monotonic() < end and self.process.poll() is None:
            if self._listens() == listening:
                return
            sleep(0.02)
        raise AssertionError(f"the service on port {self.port} has ended, or never got so far")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        """Return its exit code when it has ended."""
        self._log.close()
        return self.process.wait(30)


class Sender(threading.Thread):
    """Posts numbered requests, one after the other, until the service is gone."""

    def __init__(self, port: int, name: str, make: Any, media_type: str) -> None:
        super().__init__(name=name)
        self.acknowledged: list[str] = []
        self._port, self._make, self._media_type = port, make, media_type

    def run(self) -> None:
        """Send, and note what was acknowledged."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {"Content-Type": self._media_type}
        number = 0
        try:
            while True:
                session_id = f"{self.name}-{number}"
                connection.request("POST", "/v1/logs", self._make(session_id), headers)
                response = connection.getresponse()
                body = response.read()
                assert response.status == 200, body
                self.acknowledged.append(session_id)
                number += 1
        except (OSError, HTTPException):
            connection.close()


@contextmanager
def server_in_thread(app: Any, head_seconds: float = 20) -> Iterator[int]:
    """Run an application by the server of the service; the port is given."""

    class Protocol(BoundedHttpProtocol):
        pass

    Protocol.head_seconds = head_seconds
    config = uvicorn.Config(app, http=Protocol, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started:
                sleep(0.005)
            yield int(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def status_of(answer: bytes) -> int:
    """Return the status of an answer as it came through a socket; 0 for none."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


def everything(client: socket.socket) -> bytes:
    """Return all that is sent until the connection ends."""
    return b"".join(iter(lambda: client.recv(65536), b""))
