"""Read new lines of a landing file in batches."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.landing import LandingFile, cut_at_lines
from evaluation_pipelines.telemetry.decode_pool.messages import DecodeRequest
from evaluation_pipelines.telemetry.decode_pool.pool import DecodePool
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    event_reader,
    read_byte_range,
    read_line,
)

Batches = Iterator[tuple[EventBatch, ByteRange]]


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
        reader = event_reader(self.settings, self.clock())
        start = end = position
        for line in self.documents.read(position):
            read_line(reader, line, self.file_id, self.settings.max_line_bytes)
            end = line.next_offset
            if end - start >= self.settings.batch_bytes:
                yield reader.take(end - start), ByteRange(start, end)
                start = end
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
                done.set_result(
                    read_byte_range(
                        self.documents, self.file_id, byte_range, self.settings, self.clock()
                    )
                )
                in_flight[index] = byte_range, done
                return True
        return False

    def _read(self, byte_range: ByteRange) -> EventBatch:
        self.handle.seek(byte_range.start)  # another byte range was read before
        now = self.clock()
        return read_byte_range(self.documents, self.file_id, byte_range, self.settings, now)

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
