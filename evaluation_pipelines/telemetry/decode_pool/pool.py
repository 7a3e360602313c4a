"""The crew: processes that decode stretches of large files beside the ingest itself.

Decoding takes nearly all the time of an ingest and holds Python's lock, so threads do not help.
Each helper is a fresh interpreter that is told what to decode and gives back a batch. Order,
sessions, parts and commits stay with the ingest, which decodes while it waits, and whatever a
helper could not.
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

_MOST = 4


class DecodePool:
    """Helpers, started when there is something to do for them, and ended with the ``with``."""

    def __init__(self, settings: TelemetrySettings) -> None:
        processes = settings.ingest_processes or min(_cores(), _MOST)
        self.helpers = processes - 1
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
        """End the helpers, whatever they are doing."""
        for helper in self._started:
            helper.process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for helper in self._started:
            helper.close()

    def begin(self, order: DecodeRequest) -> Future[EventBatch | None]:
        """Decode a stretch as soon as a helper is idle.

        The result is None when the helper could not: the file was moved, or the helper has ended.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.helpers, "crew")
            for _ in range(self.helpers):
                self._started.append(_Worker.start())
                self._idle.put(self._started[-1])
        return self._threads.submit(self._decoded, order)

    def _decoded(self, order: DecodeRequest) -> EventBatch | None:
        """Runs in a thread, of which there are as many as helpers: one is idle."""
        helper = self._idle.get()
        try:
            return helper.decoded(order)
        finally:
            self._idle.put(helper)


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process, and the file without a name in which it leaves the events of a reply."""

    process: subprocess.Popen[bytes]
    events: BinaryIO

    @classmethod
    def start(cls) -> Self:
        # A fresh interpreter, and no fork of this one: Polars' threads do not survive that.
        events = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - closed with the helper
        number = events.fileno()
        command = (
            sys.executable,
            "-m",
            "evaluation_pipelines.telemetry.decode_pool.worker",
            str(number),
        )
        process = subprocess.Popen(  # noqa: S603 - the command is our own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(number,)
        )
        return cls(process, events)

    def decoded(self, order: DecodeRequest) -> EventBatch | None:
        try:
            send(cast(BinaryIO, self.process.stdin), order)
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
