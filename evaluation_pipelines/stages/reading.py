"""Reading telemetry lines with the settings of this run; shared by ingest and score."""

from datetime import datetime, timedelta
from typing import BinaryIO

from evaluation_pipelines.adapters.documents import Documents
from evaluation_pipelines.adapters.landing import RawLine
from evaluation_pipelines.adapters.prices import PriceTable
from evaluation_pipelines.domain.telemetry import times
from evaluation_pipelines.domain.telemetry.dialects.registry import DIALECTS
from evaluation_pipelines.domain.telemetry.events import Clock, Origin
from evaluation_pipelines.domain.telemetry.otlp import Defect
from evaluation_pipelines.domain.telemetry.reader import EventReader
from evaluation_pipelines.settings import Settings


def event_reader(settings: Settings, now: datetime) -> EventReader:
    """A reader of event lines as the settings say."""
    tolerance = timedelta(minutes=settings.future_tolerance_minutes)
    return EventReader(
        dialects=DIALECTS,
        prices=PriceTable(),
        clock=Clock(times.to_us(now), tolerance // timedelta(microseconds=1)),
        max_attributes=settings.max_attributes,
        keep_unknown_events=settings.keep_unknown_events,
    )


def open_documents(handle: BinaryIO, path: str, settings: Settings) -> Documents:
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
