"""Read new lines of a landing file in batches, in this process or in a pool of processes.

Decoding takes nearly all the time of an ingest and holds Python's lock, so threads do not help.
Each worker is a new interpreter that receives byte ranges and returns batches. The ingest keeps
the order, the sessions, the parts and the commits. It also decodes while it waits, and decodes
byte ranges that a worker could not.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO, Self, cast

from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.landing import LandingFile, cut_at_lines
from evaluation_pipelines.telemetry.decode_pool.messages import (
    DecodedRange,
    DecodeRequest,
    receive,
    send,
)
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    event_reader,
    read_byte_range,
    read_line,
)
from evaluation_pipelines.telemetry.received import organization_of

Batches = Iterator[tuple[EventBatch, ByteRange]]

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


@dataclass(frozen=True, slots=True)
class ByteRangeReader:
    """Reader of one file in batches of about ``batch_bytes``, in the order of the file.

    Several byte ranges of a large file are decoded in parallel.
    """

    root: Path
    file: LandingFile
    file_id: str
    handle: BinaryIO
    documents: Documents
    settings: TelemetrySettings
    decode_pool: DecodePool
    clock: Callable[[], datetime]

    def batches(self, position: int) -> Batches:
        """Yield the batches of all complete lines from ``position`` on."""
        if self._is_large(position):
            for batch, byte_range in self._in_parallel(position):
                yield batch, byte_range
                position = byte_range.end
        yield from self._in_this_process(position)

    def _is_large(self, position: int) -> bool:
        unread = os.fstat(self.handle.fileno()).st_size - position
        is_large = unread >= self.settings.parallel_from_bytes
        return self.decode_pool.workers > 0 and self.documents.is_lines and is_large

    def _in_this_process(self, position: int) -> Batches:
        reader = event_reader(self.settings, self.clock(), organization_of(self.file.path))
        start = end = position
        for line in self.documents.read(position):
            if end - start >= self.settings.batch_bytes:
                yield reader.take(end - start), ByteRange(start, end)
                start = end
            read_line(reader, line, self.file_id, self.settings.max_line_bytes)
            end = line.next_offset
        if end > start:
            yield reader.take(end - start), ByteRange(start, end)

    def _in_parallel(self, position: int) -> Batches:
        """Yield complete byte ranges; the remainder of the file is shorter than one."""
        cuts = cut_at_lines(self.handle, position, self.settings.batch_bytes)
        byte_ranges = (ByteRange(*cut) for cut in cuts)
        in_flight: deque[tuple[ByteRange, Future[EventBatch | None]]] = deque()
        while True:
            while len(in_flight) <= 2 * self.decode_pool.workers and (
                byte_range := next(byte_ranges, None)
            ):
                in_flight.append((byte_range, self.decode_pool.begin(self._request(byte_range))))
            if not in_flight:
                return
            if in_flight[0][1].done() or not self._decode_next(in_flight):
                byte_range, batch = in_flight.popleft()
                yield batch.result() or self._read(byte_range), byte_range

    def _decode_next(self, in_flight: deque[tuple[ByteRange, Future[EventBatch | None]]]) -> bool:
        """Decode the first byte range that no worker has started, in this process.

        Returns:
            False if every byte range has been started.
        """
        for index, (byte_range, batch) in enumerate(in_flight):
            if batch.cancel():
                done: Future[EventBatch | None] = Future()
                done.set_result(self._range(byte_range))
                in_flight[index] = byte_range, done
                return True
        return False

    def _read(self, byte_range: ByteRange) -> EventBatch:
        self.handle.seek(byte_range.start)  # another byte range was read before
        return self._range(byte_range)

    def _range(self, byte_range: ByteRange) -> EventBatch:
        return read_byte_range(
            self.documents,
            self.file_id,
            byte_range,
            self.settings,
            self.clock(),
            organization_of(self.file.path),
        )

    def _request(self, byte_range: ByteRange) -> DecodeRequest:
        settings = self.settings.model_dump(include=set(TelemetrySettings.model_fields))
        return DecodeRequest(
            root=str(self.root.absolute()),
            file=self.file,
            file_id=self.file_id,
            start=byte_range.start,
            end=byte_range.end,
            now=self.clock(),
            settings=settings,
        )
