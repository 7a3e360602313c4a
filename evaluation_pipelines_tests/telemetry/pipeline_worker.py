"""A process that repeats a step of the pipeline, and its handle for tests."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores

_IDLE_S = 0.002


class Worker:
    """Handle of a worker process, which is idle until ``go``."""

    def __init__(self, step: str, folder: Path, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, step],
            env=environment(folder, **settings),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def get_ready(self) -> None:
        """Wait until the process has imported all modules."""
        if not self._is_ready:
            self._expect(self._pipe("stdout").readline() == "ready\n")
            self._is_ready = True

    def go(self) -> None:
        """Start the work of the process."""
        self.get_ready()
        self._pipe("stdin").write("go\n")
        self._pipe("stdin").flush()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; the process must not have ended before."""
        self._process.kill()
        self._expect(self._process.wait() == -signal.SIGKILL)
        self._close()

    def stop(self) -> None:
        """Let the process finish its step; it must end without an error."""
        self._pipe("stdin").close()
        self._expect(self._process.wait() == 0)
        self._close()

    def discard(self) -> None:
        """Kill the process in any state."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _expect(self, condition: bool) -> None:
        if not condition:
            self._process.kill()
            raise AssertionError(self._pipe("stderr").read())

    def _pipe(self, name: str) -> Any:
        return getattr(self._process, name)

    def _close(self) -> None:
        for name in ("stdin", "stdout", "stderr"):
            self._pipe(name).close()


@contextmanager
def sequential_workers(
    count: int, step: str, folder: Path, **settings: object
) -> Iterator[Iterator[Worker]]:
    """Yield workers; each is started while the previous one works, since starting is slow."""
    started: list[Worker] = []

    def start() -> Worker:
        started.append(Worker(step, folder, **settings))
        return started[-1]

    def workers() -> Iterator[Worker]:
        prefetched = start()
        for _ in range(count - 1):
            worker, prefetched = prefetched, start()
            yield worker
        yield prefetched

    try:
        yield workers()
    finally:
        for worker in started:
            worker.discard()


@contextmanager
def two_workers(step: str, folder: Path, **settings: object) -> Iterator[None]:
    """Run two workers during the block; neither may end with an error."""
    workers = [Worker(step, folder, **settings) for _ in range(2)]
    try:
        for worker in workers:
            worker.get_ready()
        for worker in workers:
            worker.go()
        yield
        for worker in workers:
            worker.stop()
    finally:
        for worker in workers:
            worker.discard()


def environment(folder: Path, **settings: object) -> dict[str, str]:
    """Return the environment of a process with its data in ``folder`` and these settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EVAL_")}
    given = {f"EVAL_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, "EVAL_DATA_DIR": str(folder), **given}


def work(step: str) -> None:
    """Repeat one step until standard input ends."""
    from evaluation_pipelines_tests.telemetry import pipeline_steps

    once = getattr(pipeline_steps, step)
    settings = load_settings()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with open_stores(settings) as stores:
        while not select.select([sys.stdin], [], [], _IDLE_S)[0]:
            once(stores)


if __name__ == "__main__":
    work(sys.argv[1])
