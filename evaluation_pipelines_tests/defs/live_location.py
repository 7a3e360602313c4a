"""The code location as ``make dev`` runs it: webserver, daemon and code server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evaluation_pipelines_tests.defs.dagster_home import dagster_home

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
T = TypeVar("T")

_HEALTH = """
{ workspaceOrError { ... on Workspace { locationEntries { loadStatus locationOrLoadError {
    ... on PythonError { message } } } } }
  instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }
"""


@dataclass(frozen=True)
class LiveLocation:
    """A running Dagster."""

    url: str
    log: Path

    def query(self, text: str, **variables: object) -> Any:
        """Send a GraphQL query; an error in the answer fails the test."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/graphql", body, headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            answer = json.load(reply)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def wait(self, what: str, poll: Callable[[], T], seconds: float = 60) -> tuple[T, float]:
        """Poll until the result is truthy; return it and the seconds it took."""
        began = time.monotonic()
        while not (found := poll()):
            if time.monotonic() - began > seconds:
                tail = "\n".join(self.log.read_text().splitlines()[-40:])
                raise AssertionError(f"no {what} after {seconds} s; the log ends with\n{tail}")
            time.sleep(0.2)
        return found, time.monotonic() - began

    def is_healthy(self) -> bool:
        """Return whether the code is loaded and every daemon healthy."""
        try:
            answer = self.query(_HEALTH)
        except OSError:  # not listening yet
            return False
        entries = answer["workspaceOrError"]["locationEntries"]
        daemons = answer["instance"]["daemonHealth"]["allDaemonStatuses"]
        assert not any("message" in (entry["locationOrLoadError"] or {}) for entry in entries), (
            entries
        )
        return [entry["loadStatus"] for entry in entries] == ["LOADED"] and all(
            daemon["healthy"] for daemon in daemons if daemon["required"]
        )


@contextmanager
def start(folder: Path, home: Path | None = None, **settings: object) -> Iterator[LiveLocation]:
    """Run ``dg dev`` with its state in ``folder`` and ``settings`` until the block ends.

    ``home`` has the ``dagster.yaml``; without it that of the checkout is used.
    """
    home = home or dagster_home(folder / "home")
    log, port = folder / "dev.log", _free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BIN / "dg", "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            env=_environment(home, settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    live = LiveLocation(f"http://127.0.0.1:{port}", log)
    try:
        live.wait("healthy Dagster", live.is_healthy, 180)
        yield live
    finally:
        _end(process)


def _environment(home: Path, settings: dict[str, object]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EVAL_")}
    given = {f"EVAL_{name.upper()}": str(value) for name, value in settings.items()}
    return {
        **kept,
        **given,
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "VIRTUAL_ENV": str(BIN.parent),
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process group; kill the processes that do not end."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # the usual case: all have ended
        return
