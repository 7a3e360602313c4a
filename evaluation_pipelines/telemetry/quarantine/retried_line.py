"""One quarantined line that is read again: what it holds now, and how the counts change."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, QUARANTINE
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.landing import RawLine
from evaluation_pipelines.telemetry.documents import FileFormat
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.otlp import MalformedLineError, only_records
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.ledger.quarantine_retries import WHOLE_LINE, RetryVerdict
from evaluation_pipelines.telemetry.quarantine.entries import QuarantineEntry
from evaluation_pipelines.telemetry.reading import event_reader, read_line

CUT_OFF = (
    "the rest of a compressed file was given up here, of which this is only the beginning: put a "
    "mended copy under another name into the landing folder (after raising "
    "EVAL_MAX_DECOMPRESSION_RATIO, if that was the limit); what is known already counts once"
)


@dataclass(frozen=True, slots=True)
class RetriedLine:
    """What became of the entries of one line.

    Attributes:
        entries: The entries that were read again.
        verdicts: One for each of them.
        events: AGENT_EVENTS columns: what was not stored before.
        newly_quarantined: QUARANTINE columns: broken records of a line that could not be read at
            all before.
        gained: How the counts of its ingest change.
        names: (source_cli or scope, event name) -> records that were not stored.
    """

    entries: Sequence[QuarantineEntry]
    verdicts: Sequence[RetryVerdict]
    events: pl.DataFrame
    newly_quarantined: pl.DataFrame
    gained: IngestCounts
    names: Counter[tuple[str, str]]

    @property
    def offset(self) -> int:
        """Where the line begins."""
        return self.entries[0].offset

    @property
    def resolved(self) -> list[QuarantineEntry]:
        """Entries that could be read."""
        pairs = zip(self.entries, self.verdicts, strict=True)
        return [entry for entry, verdict in pairs if verdict.reason is None]

    @property
    def left(self) -> list[tuple[QuarantineEntry, str]]:
        """Entries that could not, with the reason as it is now."""
        pairs = zip(self.entries, self.verdicts, strict=True)
        return [(entry, verdict.reason) for entry, verdict in pairs if verdict.reason is not None]


def read_again(
    of_line: Sequence[QuarantineEntry],
    raw: RawLine,
    settings: Settings,
    now: datetime,
    form: FileFormat,
) -> RetriedLine:
    """Read the entries of one line; of a line that was read in part only its broken records.

    Nothing of an array is taken before all of its requests can be read: the good ones are stored
    already, and are stored again with the others then. The build keeps one of each.
    """
    first = of_line[0]
    if form.is_stream and first.length_bytes == 0:
        return _unreadable(of_line, CUT_OFF)
    if first.record_index == WHOLE_LINE:
        return _whole_line(of_line, _batch(raw, first, settings, now), now)
    places = [each.record_index for each in of_line]
    try:
        text = only_records(raw.text, places)
    except MalformedLineError as error:  # too long now, say: a limit was lowered
        return _unreadable(of_line, str(error))
    part = RawLine(raw.offset, text, len(text), raw.next_offset)
    return _single_records(of_line, _batch(part, first, settings, now))


def _batch(raw: RawLine, entry: QuarantineEntry, settings: Settings, now: datetime) -> EventBatch:
    reader = event_reader(settings, now)
    read_line(reader, raw, entry.file_id, settings.max_line_bytes)
    return reader.take(0)


def _whole_line(
    of_line: Sequence[QuarantineEntry], batch: EventBatch, now: datetime
) -> RetriedLine:
    """The first entry is that of the line, others are of records of an array it stands in."""
    entry = of_line[0]
    reasons = {
        WHOLE_LINE if each.record_index is None else each.record_index: each.reason
        for each in batch.quarantined
    }
    if WHOLE_LINE in reasons:
        return _unreadable(of_line, reasons[WHOLE_LINE])
    known = {each.record_index for each in of_line}
    rows = [
        (
            *(entry.file_id, entry.path, each.offset, each.length_bytes, each.record_index),
            *(each.reason, each.first_bytes, now),
        )
        for each in batch.quarantined
        if each.record_index not in known
    ]
    newly = pl.DataFrame(rows, schema=QUARANTINE.schema, orient="row")
    return _taken(of_line, batch, reasons, newly)


def _single_records(of_line: Sequence[QuarantineEntry], batch: EventBatch) -> RetriedLine:
    """The records were read without the others of their line, in the order of their places."""
    reasons = {
        of_line[each.record_index].record_index: each.reason
        for each in batch.quarantined
        if each.record_index is not None
    }
    return _taken(of_line, batch, reasons, QUARANTINE.schema.to_frame())


def _taken(
    of_line: Sequence[QuarantineEntry],
    batch: EventBatch,
    reasons: dict[int, str],
    newly: pl.DataFrame,
) -> RetriedLine:
    gained = batch.counts
    gained.lines -= 1  # the line was counted when it was refused
    gained.quarantined -= len(of_line)
    verdicts = [
        RetryVerdict(each.offset, each.record_index, reasons.get(each.record_index))
        for each in of_line
    ]
    return RetriedLine(of_line, verdicts, batch.events, newly, gained, batch.names)


def _unreadable(of_line: Sequence[QuarantineEntry], reason: str) -> RetriedLine:
    return RetriedLine(
        of_line,
        [RetryVerdict(each.offset, each.record_index, reason) for each in of_line],
        AGENT_EVENTS_LANDED.schema.to_frame(),
        QUARANTINE.schema.to_frame(),
        IngestCounts(),
        Counter(),
    )
