"""The crew: processes that decode stretches of large files beside the ingest itself.

Decoding takes nearly all the time of an ingest and holds Python's lock, so threads do not help.
Each helper is a fresh interpreter that is told what to decode and sends back a batch. Order,
sessions, parts and commits stay with the ingest, which decodes while it waits, and whatever a
helper could not.
"""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import BinaryIO, Self, cast

from evaluation_pipelines.domain.telemetry.reader import EventBatch
from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.stages.crew_messages import Order, Reply, receive, send

_MOST = 4


class Crew:
    """Helpers, started when there is something to do for them, and ended with the ``with``."""

    def __init__(self, settings: TelemetrySettings) -> None:
        processes = settings.ingest_processes or min(_cores(), _MOST)
        self.helpers = processes - 1
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the helpers, whatever they are doing."""
        for process in self._started:
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            process.wait()
            cast(BinaryIO, process.stdout).close()
            with suppress(BrokenPipeError):  # it ended before it had read everything
                cast(BinaryIO, process.stdin).close()

    def begin(self, order: Order) -> Future[EventBatch | None]:
        """Decode a stretch as soon as a helper is idle.

        The result is None when the helper could not: the file was moved, or the helper has ended.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.helpers, "crew")
            for _ in range(self.helpers):
                self._started.append(_start())
                self._idle.put(self._started[-1])
        return self._threads.submit(self._decoded, order)

    def _decoded(self, order: Order) -> EventBatch | None:
        """Runs in a thread, of which there are as many as helpers: one is idle."""
        process = self._idle.get()
        try:
            send(cast(BinaryIO, process.stdin), order)
            reply = receive(cast(BinaryIO, process.stdout), Reply)
        except BrokenPipeError:
            reply = None
        self._idle.put(process)
        return None if reply is None else reply.batch()


def _start() -> subprocess.Popen[bytes]:
    # A fresh interpreter, and no fork of this one: Polars' threads do not survive that.
    command = (sys.executable, "-m", "evaluation_pipelines.stages.crew_member")
    return subprocess.Popen(  # noqa: S603 - the command is our own
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
