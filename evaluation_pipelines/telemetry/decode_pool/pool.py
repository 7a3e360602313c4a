"""Pool of processes that decode byte ranges of large files.

Decoding takes nearly all the time of an ingest and holds Python's lock, so threads do not help.
Each worker is a new interpreter that receives byte ranges and returns batches. The ingest keeps
the order, the sessions, the parts and the commits. It also decodes while it waits, and decodes
byte ranges that a worker could not.
"""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO, Self, cast

from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.telemetry.decode_pool.messages import (
    DecodedRange,
    DecodeRequest,
    receive,
    send,
)
from evaluation_pipelines.telemetry.domain.reader import EventBatch

_MAX_DEFAULT_PROCESSES = 4


class DecodePool:
    """Decode workers, started on first use and ended with the ``with`` block."""

    def __init__(self, settings: TelemetrySettings) -> None:
        processes = settings.ingest_processes or min(_cores(), _MAX_DEFAULT_PROCESSES)
        self.workers = processes - 1
        self._started: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the workers."""
        for worker in self._started:
            worker.process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for worker in self._started:
            worker.close()

    def begin(self, request: DecodeRequest) -> Future[EventBatch | None]:
        """Decode a byte range as soon as a worker is idle.

        The result is None if the worker failed: the file was moved, or the worker has ended.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, "decode-pool")
            for _ in range(self.workers):
                self._started.append(_Worker.start())
                self._idle.put(self._started[-1])
        return self._threads.submit(self._decoded, request)

    def _decoded(self, request: DecodeRequest) -> EventBatch | None:
        """Run in a thread; with one thread per worker, at least one worker is idle."""
        worker = self._idle.get()
        try:
            return worker.decoded(request)
        finally:
            self._idle.put(worker)


@dataclass(frozen=True, slots=True)
class _Worker:
    """Worker process, and the unnamed file in which it returns events."""

    process: subprocess.Popen[bytes]
    events: BinaryIO

    @classmethod
    def start(cls) -> Self:
        # A new interpreter, not a fork: Polars' threads do not survive that.
        events = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - closed with the worker
        number = events.fileno()
        command = (
            sys.executable,
            "-m",
            "evaluation_pipelines.telemetry.decode_pool.worker",
            str(number),
        )
        process = subprocess.Popen(  # noqa: S603 - the command is fixed
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(number,)
        )
        return cls(process, events)

    def decoded(self, request: DecodeRequest) -> EventBatch | None:
        try:
            send(cast(BinaryIO, self.process.stdin), request)
            reply = receive(cast(BinaryIO, self.process.stdout), DecodedRange)
        except BrokenPipeError:
            return None
        return None if reply is None else reply.batch(self.events)

    def close(self) -> None:
        self.process.wait()
        self.events.close()
        cast(BinaryIO, self.process.stdout).close()
        with suppress(BrokenPipeError):  # it ended before it had read everything
            cast(BinaryIO, self.process.stdin).close()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
