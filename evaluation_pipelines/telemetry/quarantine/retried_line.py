"""Quarantined lines that are read again, one at a time: what of them is an event now.

Only broken records are read of a line that was partly read.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS, QUARANTINE
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.raw_lines import RawLine
from evaluation_pipelines.telemetry.documents import FileFormat
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.decode import select_records
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.ledger.quarantine_retries import WHOLE_LINE, RetryVerdict
from evaluation_pipelines.telemetry.quarantine.entries import QuarantineEntry
from evaluation_pipelines.telemetry.reading import event_reader, read_line
from evaluation_pipelines.telemetry.received import organization_of

CUT_OFF = (
    "the compressed file could not be read from this line to its end: put a fixed copy under "
    "another name into the landing folder (after raising EVAL_MAX_DECOMPRESSION_RATIO, if that was "
    "the limit); events that are already stored count once"
)


@dataclass(frozen=True, slots=True)
class RetriedLine:
    """Result of the retry of one line.

    Attributes:
        entries: Retried entries.
        verdicts: One for each of them.
        events: EVENTS_WITH_TEXTS of events that were not stored before.
        newly_quarantined: QUARANTINE columns: broken records of a line that could not be read at
            all before.
        gained: Change of the counts of the ingest that read the line first.
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
        """Offset of the line."""
        return self.entries[0].offset

    @property
    def resolved(self) -> list[QuarantineEntry]:
        """Entries that were read."""
        pairs = zip(self.entries, self.verdicts, strict=True)
        return [entry for entry, verdict in pairs if verdict.reason is None]

    @property
    def unresolved(self) -> list[tuple[QuarantineEntry, str]]:
        """Entries that still cannot be read, with the current reason."""
        pairs = zip(self.entries, self.verdicts, strict=True)
        return [(entry, verdict.reason) for entry, verdict in pairs if verdict.reason is not None]


def reread(
    of_line: Sequence[QuarantineEntry],
    raw: RawLine,
    settings: Settings,
    now: datetime,
    form: FileFormat,
) -> RetriedLine:
    """Read the entries of one line again; only the broken records of a partly read line.

    An array is used only if all of its requests can be read. Its good ones, which are already
    stored, are then stored again with the others; the build keeps one of each.
    """
    first = of_line[0]
    if form.is_stream and first.length_bytes == 0:
        return _unreadable(of_line, CUT_OFF)
    if first.record_index == WHOLE_LINE:
        return _whole_line(of_line, _batch(raw, first, settings, now), now)
    indices = [each.record_index for each in of_line]
    try:
        text = select_records(raw.text, indices)
    except MalformedLineError as error:  # for example longer than a limit that was lowered
        return _unreadable(of_line, str(error))
    part = RawLine(raw.offset, text, len(text), raw.next_offset)
    return _single_records(of_line, _batch(part, first, settings, now))


def _batch(raw: RawLine, entry: QuarantineEntry, settings: Settings, now: datetime) -> EventBatch:
    reader = event_reader(settings, now, organization_of(entry.path))
    read_line(reader, raw, entry.file_id, settings.max_line_bytes)
    return reader.take(0)


def _whole_line(
    of_line: Sequence[QuarantineEntry], batch: EventBatch, now: datetime
) -> RetriedLine:
    """Handle a whole line; the first entry is the line, others are records of its array."""
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
            *(each.reason, each.first_bytes, now, entry.lines),
        )
        for each in batch.quarantined
        if each.record_index not in known
    ]
    newly_quarantined = pl.DataFrame(rows, schema=QUARANTINE.schema, orient="row")
    return _retried(of_line, batch, reasons, newly_quarantined)


def _single_records(of_line: Sequence[QuarantineEntry], batch: EventBatch) -> RetriedLine:
    """Handle records that were read without the rest of their line, in their order."""
    reasons = {
        of_line[each.record_index].record_index: each.reason
        for each in batch.quarantined
        if each.record_index is not None
    }
    return _retried(of_line, batch, reasons, QUARANTINE.no_rows)


def _retried(
    of_line: Sequence[QuarantineEntry],
    batch: EventBatch,
    reasons: dict[int, str],
    newly_quarantined: pl.DataFrame,
) -> RetriedLine:
    gained, copies = batch.counts, of_line[0].lines
    gained.lines -= 1  # the line was counted when it was quarantined
    gained.quarantined = copies * (gained.quarantined - len(of_line))
    # Equal lines have equal records: those of the others repeat the ones that are stored. Rows of
    # attribution lines are no records.
    records = batch.events.filter(pl.col("source_event_name").ne_missing("attribution"))
    gained.repeated_records = copies * gained.repeated_records + (copies - 1) * records.height
    for name in ("unknown_records", "unattributed", "skipped", "attribution_lines"):
        setattr(gained, name, copies * getattr(gained, name))
    names = Counter({name: copies * number for name, number in batch.names.items()})
    if copies > 1:
        by_name = records.group_by("source_cli", "source_event_name").len().rows()
        for source, name, number in by_name:
            names[source or "", name or ""] += (copies - 1) * number
    verdicts = [
        RetryVerdict(each.offset, each.record_index, reasons.get(each.record_index))
        for each in of_line
    ]
    return RetriedLine(of_line, verdicts, batch.events, newly_quarantined, gained, names)


def _unreadable(of_line: Sequence[QuarantineEntry], reason: str) -> RetriedLine:
    return RetriedLine(
        of_line,
        [RetryVerdict(each.offset, each.record_index, reason) for each in of_line],
        EVENTS_WITH_TEXTS.to_frame(),
        QUARANTINE.no_rows,
        IngestCounts(),
        Counter(),
    )
