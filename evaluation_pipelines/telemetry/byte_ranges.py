"""What is new in a landing file, batch by batch."""

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
    """Reads one file in batches of about ``batch_bytes``, which come in the order of the file.

    Several stretches of a large file are decoded at a time. Nothing here depends on their order:
    that is up to whoever takes the batches.
    """

    root: Path
    file: LandingFile
    file_id: str
    handle: BinaryIO
    documents: Documents
    settings: TelemetrySettings
    crew: DecodePool
    clock: Callable[[], datetime]

    def batches(self, position: int) -> Batches:
        """The complete lines from ``position`` on."""
        if self._is_worth_a_crew(position):
            for batch, stretch in self._side_by_side(position):
                yield batch, stretch
                position = stretch.end
        yield from self._one_by_one(position)

    def _is_worth_a_crew(self, position: int) -> bool:
        unread = os.fstat(self.handle.fileno()).st_size - position
        is_large = unread >= self.settings.parallel_from_bytes
        return self.crew.helpers > 0 and self.documents.is_lines and is_large

    def _one_by_one(self, position: int) -> Batches:
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

    def _side_by_side(self, position: int) -> Batches:
        """Whole stretches; what is left over at the end of the file is less than one."""
        cuts = cut_at_lines(self.handle, position, self.settings.batch_bytes)
        stretches = (ByteRange(*cut) for cut in cuts)
        ahead: deque[tuple[ByteRange, Future[EventBatch | None]]] = deque()
        while True:
            while len(ahead) <= 2 * self.crew.helpers and (stretch := next(stretches, None)):
                ahead.append((stretch, self.crew.begin(self._order(stretch))))
            if not ahead:
                return
            if ahead[0][1].done() or not self._lend_a_hand(ahead):
                stretch, batch = ahead.popleft()
                yield batch.result() or self._read(stretch), stretch

    def _lend_a_hand(self, ahead: deque[tuple[ByteRange, Future[EventBatch | None]]]) -> bool:
        """Decode the first stretch that no helper has begun; False when there is none."""
        for index, (stretch, batch) in enumerate(ahead):
            if batch.cancel():
                done: Future[EventBatch | None] = Future()
                done.set_result(
                    read_byte_range(
                        self.documents, self.file_id, stretch, self.settings, self.clock()
                    )
                )
                ahead[index] = stretch, done
                return True
        return False

    def _read(self, stretch: ByteRange) -> EventBatch:
        self.handle.seek(stretch.start)  # another stretch was read before, perhaps a later one
        now = self.clock()
        return read_byte_range(self.documents, self.file_id, stretch, self.settings, now)

    def _order(self, stretch: ByteRange) -> DecodeRequest:
        settings = self.settings.model_dump(include=set(TelemetrySettings.model_fields))
        return DecodeRequest(
            root=str(self.root.absolute()),
            file=self.file,
            file_id=self.file_id,
            start=stretch.start,
            end=stretch.end,
            now=self.clock(),
            settings=settings,
        )
