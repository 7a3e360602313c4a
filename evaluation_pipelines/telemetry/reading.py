"""Read telemetry lines with the settings of this process; shared by ingest and score."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import BinaryIO, NamedTuple

from evaluation_pipelines import times
from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.raw_lines import RawLine
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.otlp import Defect
from evaluation_pipelines.telemetry.domain.reader import EventBatch, EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.own_price_file import read_own_prices
from evaluation_pipelines.telemetry.prices import PriceTable

FILE_REPLACED = (
    "it was emptied or replaced while it was read; the next run reads it from the beginning"
)


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
    tolerance = timedelta(minutes=settings.future_tolerance_minutes)
    return EventReader(
        dialects=DIALECTS,
        prices=PriceTable(read_own_prices(settings.prices_path)),
        clock=Clock(times.to_us(now), tolerance // timedelta(microseconds=1)),
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
        reason = f"longer than {max_line_bytes} bytes; raise EVAL_MAX_LINE_BYTES to read it"
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
