"""Reading telemetry lines with the settings of this run; shared by ingest and score."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import BinaryIO, NamedTuple

from evaluation_pipelines import times
from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.landing import RawLine
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.otlp import Defect
from evaluation_pipelines.telemetry.domain.reader import EventBatch, EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.prices import PriceTable


class ByteRange(NamedTuple):
    """Bytes ``start`` to ``end`` of a file."""

    start: int
    end: int


@contextmanager
def few_collections() -> Iterator[None]:
    """Let Python look for reference cycles seldom: there are none among records.

    Looking through all that a batch holds, time and again, takes a tenth of the time of decoding.
    """
    usual = gc.get_threshold()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def event_reader(settings: TelemetrySettings, now: datetime) -> EventReader:
    """A reader of event lines as the settings say."""
    tolerance = timedelta(minutes=settings.future_tolerance_minutes)
    return EventReader(
        dialects=DIALECTS,
        prices=PriceTable(),
        clock=Clock(times.to_us(now), tolerance // timedelta(microseconds=1)),
        max_attributes=settings.max_attributes,
        keep_unknown_events=settings.keep_unknown_events,
    )


def open_documents(handle: BinaryIO, path: str, settings: TelemetrySettings) -> Documents:
    """The lines of an open file, however it is compressed, within the limits of the settings."""
    return Documents(handle, path, settings.max_line_bytes, settings.max_decompression_ratio)


def read_line(reader: EventReader, line: RawLine, file_id: str, max_line_bytes: int) -> None:
    """Give a line to the reader, or to the quarantine when it is too long."""
    if line.defect is not None:
        reader.refuse(line.text, line.offset, line.length_bytes, Defect(line.defect))
    elif line.is_overlong:
        reason = f"longer than {max_line_bytes} bytes; raise EVAL_MAX_LINE_BYTES to read it"
        reader.refuse(line.text, line.offset, line.length_bytes, Defect(reason))
    else:
        reader.read(line.text, Origin(file_id, line.offset))


def read_byte_range(
    documents: Documents,
    file_id: str,
    stretch: ByteRange,
    settings: TelemetrySettings,
    now: datetime,
) -> EventBatch:
    """The events of a stretch that ends behind a newline.

    Raises:
        OSError: the file has become shorter.
    """
    reader, end = event_reader(settings, now), stretch.start
    for line in documents.read(stretch.start):
        read_line(reader, line, file_id, settings.max_line_bytes)
        end = line.next_offset
        if end >= stretch.end:
            break
    if end != stretch.end:
        raise OSError("it was emptied or replaced while it was read; the next run begins it")
    return reader.take(stretch.end - stretch.start)
