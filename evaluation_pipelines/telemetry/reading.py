"""Read telemetry with the settings of this process: lines, and the new ones of a file in batches.

An engine decodes byte ranges of a large file: that takes nearly all the time of an ingest. The
ingest keeps the order, the sessions, the parts and the commits.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from socket import gethostname
from typing import BinaryIO, NamedTuple

from evaluation_pipelines import times
from evaluation_pipelines.engine import Engine, Work
from evaluation_pipelines.settings.data import TelemetrySettings
from evaluation_pipelines.storage.landing import (
    Head,
    LandingFile,
    LandingSource,
    open_landing,
    read_head,
)
from evaluation_pipelines.storage.raw_lines import RawLine, cut_at_lines, size_of
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS, TRANSCRIPT_DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.otlp import Defect
from evaluation_pipelines.telemetry.domain.reader import EventBatch, EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.prices import PriceTable, read_own_prices

FILE_REPLACED = "it was emptied or replaced while it was read. The next run reads it from the start"

_FUTURE_TOLERANCE_US = 5 * 60 * 1_000_000
"""How far in the future an event may be."""


class ByteRange(NamedTuple):
    """Bytes ``start`` to ``end`` of a file."""

    start: int
    end: int


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Run Python's garbage collector rarely: records contain no reference cycles.

    With the usual thresholds it takes a twentieth of the processor time of an ingest.
    """
    usual = gc.get_threshold()
    gc.set_threshold(1_000_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def event_reader(
    settings: TelemetrySettings, now: datetime, organization: str | None = None
) -> EventReader:
    """Return a reader of event lines with these settings, of one organization if it is given."""
    return EventReader(
        dialects=(*TRANSCRIPT_DIALECTS, *DIALECTS),
        prices=PriceTable(read_own_prices(settings.prices_path)),
        clock=Clock(times.to_us(now), _FUTURE_TOLERANCE_US),
        max_attributes=settings.max_attributes,
        keep_unknown_events=settings.keep_unknown_events,
        session_attributes=settings.session_attributes,
        organization=organization,
    )


def open_documents(
    handle: BinaryIO, settings: TelemetrySettings, *, is_final: bool = False
) -> Documents:
    """Return the lines of an open file in any encoding, within the limits of the settings."""
    limits = (settings.max_line_bytes, settings.max_decompression_ratio)
    return Documents(handle, *limits, is_final=is_final)


def read_line(reader: EventReader, line: RawLine, file_id: str, max_line_bytes: int) -> None:
    """Pass a line to the reader, or to the quarantine if it is too long."""
    if line.defect is not None:
        reader.refuse(line.text, line.offset, line.length_bytes, Defect(line.defect))
    elif line.is_overlong:
        reason = f"longer than {max_line_bytes} bytes. Raise EVAL_MAX_LINE_BYTES to read it"
        reader.refuse(line.text, line.offset, line.length_bytes, Defect(reason))
    else:
        reader.read(line.text, Origin(file_id, line.offset))


def read_byte_range(
    documents: Documents,
    file_id: str,
    byte_range: ByteRange,
    settings: TelemetrySettings,
    now: datetime,
    organization: str | None = None,
) -> EventBatch:
    """Return the events of a byte range that ends after a line or document.

    What follows the range has no influence: it may have been written later.

    Raises:
        OSError: the file has become shorter.
    """
    reader, end = event_reader(settings, now, organization), byte_range.start
    for line in documents.read(*byte_range):
        read_line(reader, line, file_id, settings.max_line_bytes)
        end = line.next_offset
    if end != byte_range.end:
        raise OSError(FILE_REPLACED)
    return reader.take(byte_range.end - byte_range.start)


_log = logging.getLogger(__name__)

Batches = Iterator[tuple[EventBatch, ByteRange]]


@dataclass(frozen=True, slots=True)
class LandingPlace:
    """Where the file of an ingest is, and how it is read.

    Attributes:
        location: The folder, or the URL.
        settings: Settings of the reader.
        host: The machine of the ingest.
        head: First bytes of the file.
    """

    location: Path | str
    settings: TelemetrySettings
    host: str
    head: Head


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """A byte range of a landing file, to be decoded at the time ``now``."""

    file: LandingFile
    file_id: str
    byte_range: ByteRange
    now: datetime


@dataclass(frozen=True, slots=True)
class NotRead:
    """Why a worker could not read a byte range; the ingest, which has the file open, can.

    ``was_moved`` is true for a file that was renamed or replaced on the machine of the ingest.
    """

    host: str
    reason: str
    was_moved: bool


def decode_byte_range(place: LandingPlace, request: DecodeRequest) -> EventBatch | NotRead:
    """Return the events of a byte range, or why it cannot be read here."""
    host, landing = gethostname(), _landing(place.location)
    is_elsewhere = host != place.host
    try:
        opened = (
            landing.open_elsewhere(request.file, place.head)
            if is_elsewhere
            else landing.open(request.file)
        )
        with opened as handle, infrequent_gc():
            return read_byte_range(
                open_documents(handle, place.settings),
                request.file_id,
                request.byte_range,
                place.settings,
                request.now,
                organization_of(request.file.path),
            )
    except OSError as error:
        was_moved = isinstance(error, FileNotFoundError) and not is_elsewhere
        return NotRead(host, str(error), was_moved)


@cache
def _landing(location: Path | str) -> LandingSource:
    """Return the landing files of a worker; nothing is locked there."""
    return open_landing(location)


DECODE = Work(decode_byte_range, holds_lock=True)


@dataclass(frozen=True, slots=True)
class ByteRangeReader:
    """Reader of one file in batches of about ``batch_bytes``, in the order of the file."""

    location: Path | str
    file: LandingFile
    file_id: str
    handle: BinaryIO
    documents: Documents
    settings: TelemetrySettings
    engine: Engine
    clock: Callable[[], datetime]

    def batches(self, position: int) -> Batches:
        """Yield the batches of all complete lines from ``position`` on."""
        if self._is_large(position):
            for batch, byte_range in self._in_parallel(position):
                yield batch, byte_range
                position = byte_range.end
        yield from self._in_this_process(position)

    def _is_large(self, position: int) -> bool:
        unread = size_of(self.handle) - position
        return unread >= self.settings.parallel_from_bytes and self.documents.is_lines

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
        requests = (
            DecodeRequest(self.file, self.file_id, ByteRange(*cut), self.clock()) for cut in cuts
        )
        settings = _telemetry_settings(self.settings)
        place = LandingPlace(self.location, settings, gethostname(), read_head(self.handle))
        not_read: list[NotRead] = []
        try:
            for request, found in self.engine.run(DECODE, requests, place):
                if isinstance(found, NotRead):
                    not_read.append(found)
                    yield self._read(request), request.byte_range
                else:
                    yield found, request.byte_range
        finally:
            self._report([read for read in not_read if not read.was_moved])

    def _report(self, not_read: list[NotRead]) -> None:
        """Report that workers failed: one process is slow."""
        if not_read:
            _log.warning(
                "%d byte ranges of %s were decoded by the ingest alone, because workers could not "
                "read them, the first on %s: %s. All nodes need the same files under %s.",
                len(not_read),
                self.file.path,
                not_read[0].host,
                not_read[0].reason,
                self.location,
            )

    def _read(self, request: DecodeRequest) -> EventBatch:
        """Decode a byte range of the open file, whatever its name is by now."""
        self.handle.seek(request.byte_range.start)
        return read_byte_range(
            self.documents,
            self.file_id,
            request.byte_range,
            self.settings,
            request.now,
            organization_of(self.file.path),
        )


def _telemetry_settings(settings: TelemetrySettings) -> TelemetrySettings:
    """Return these settings alone: the others have passwords, which no worker needs."""
    names = set(TelemetrySettings.model_fields)
    return TelemetrySettings.model_construct(**settings.model_dump(include=names))
