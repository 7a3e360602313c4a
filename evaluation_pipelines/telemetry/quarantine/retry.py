"""Read quarantined lines again after the program or a setting was fixed.

Only those lines are read, one at a time, and of a line that was partly read only its broken
records. Their events and the result of the retry are committed in one transaction, so a second or
interrupted retry stores nothing twice.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count, groupby
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS, QUARANTINE
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.lock import INGEST, Hold, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.raw_lines import RawLine
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import FileFormat, LinePosition, reread_lines
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import select_records
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.forgotten_events import ForgottenEvents, KeptEvents
from evaluation_pipelines.telemetry.ledger.forgotten_store import ForgottenMeanwhileError
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    QuarantineEntry,
    QuarantineRetries,
    RetriedLines,
    RetryVerdict,
    all_entries,
    to_entries,
)
from evaluation_pipelines.telemetry.reading import event_reader, open_documents, read_line
from evaluation_pipelines.telemetry.received import organization_of
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, write_events
from evaluation_pipelines.telemetry.unread_files import is_same_file, known_identities

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


_MAX_BATCH_LINES = 500

GONE = "the file is no longer in the landing folder"
REPLACED = "the file was emptied or replaced since it was read"
CHANGED = "the file has other content at this offset now"


@dataclass(slots=True)
class RetryReport:
    """Result of one retry.

    Attributes:
        resolved: Number of entries that could be read.
        events: Number of events stored for them.
        dates: Dates with new events.
        unresolved: Entries that still cannot be read, each with its reason.
    """

    resolved: int = 0
    events: int = 0
    dates: set[date] = field(default_factory=set)
    unresolved: list[tuple[QuarantineEntry, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries quarantine entries; ``clock`` returns the time."""

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, chosen: Callable[[QuarantineEntry], bool] = lambda _entry: True) -> RetryReport:
        """Read all unresolved entries that ``chosen`` selects again, while nothing is ingested.

        Raises:
            LakeError: a part cannot be written. Lines committed before stay.
            LockTimeoutError: another process ingests for too long.
            LockLostError: another process may ingest by now. Lines committed before stay.
            LedgerError: the ledger cannot be used.
        """
        timeout_s = self.stores.settings.lock_timeout_seconds
        with held(self.stores.ledger, INGEST, timeout_s=timeout_s) as hold:
            return self._run(chosen, hold)

    def _run(self, chosen: Callable[[QuarantineEntry], bool], hold: Hold) -> RetryReport:
        report = RetryReport()
        files, _ = self.stores.landing.list_files(known_identities(self.stores))
        present = {(each.device, each.inode): each for each in files}
        frame = all_entries(self.stores).filter(~pl.col("resolved"))
        for (file_id,), rows in frame.group_by("file_id", maintain_order=True):
            requested = list(filter(chosen, to_entries(rows)))
            if not requested:
                continue
            source = SourceFiles(self.stores.ledger).get(str(file_id))
            file = present.get((source.device, source.inode))
            if file is None:
                report.unresolved += [(each, GONE) for each in requested]
            else:
                self._retry_file(file, source.file_id, requested, hold, report)
        return report

    def _retry_file(
        self,
        file: LandingFile,
        file_id: str,
        requested: list[QuarantineEntry],
        hold: Hold,
        report: RetryReport,
    ) -> None:
        source = SourceFiles(self.stores.ledger).get(file_id)
        try:
            with self.stores.landing.open(file) as handle:
                if not is_same_file(handle, source):
                    report.unresolved += [(each, REPLACED) for each in requested]
                    return
                for lines in self._read(handle, file, requested, report):
                    self._store(file_id, lines, hold, report)
        except FileNotFoundError:
            report.unresolved += [(each, GONE) for each in requested]

    def _read(
        self,
        handle: BinaryIO,
        file: LandingFile,
        requested: list[QuarantineEntry],
        report: RetryReport,
    ) -> Iterator[list[RetriedLine]]:
        """Yield batches of lines read again; report entries whose line changed as unresolved."""
        settings = self.stores.settings
        by_line = [list(group) for _, group in groupby(requested, lambda each: each.offset)]
        positions = [
            LinePosition(first.offset, first.length_bytes, first.first_bytes)
            for first, *_ in by_line
        ]
        documents = open_documents(handle, settings)
        batch: list[RetriedLine] = []
        size_bytes = 0
        for of_line, raw in zip(by_line, reread_lines(documents, positions), strict=True):
            if raw is None:
                report.unresolved += [(each, CHANGED) for each in of_line]
                continue
            batch.append(reread(of_line, raw, settings, self.clock(), documents.form))
            size_bytes += len(raw.text)
            if len(batch) >= _MAX_BATCH_LINES or size_bytes >= settings.batch_bytes:
                yield batch
                batch, size_bytes = [], 0
        if batch:
            yield batch

    def _store(
        self, file_id: str, lines: list[RetriedLine], hold: Hold, report: RetryReport
    ) -> None:
        """Write the parts of some lines, then commit them."""
        name = f"{file_id}-retry-{lines[0].offset}-{lines[-1].offset}.{uuid.uuid4().hex[:8]}"
        events = pl.concat([each.events for each in lines])
        quarantined = self._write_quarantine(lines, name)
        retried = RetriedLines(
            file_id=file_id,
            retried_at=self.clock(),
            verdicts=tuple(verdict for each in lines for verdict in each.verdicts),
            names=_sum_names(lines),
        )
        forgotten = ForgottenEvents(self.stores)
        for attempt in count():
            kept = forgotten.leave_out(events)
            dated = assign_session_dates(
                kept.events, self.stores.ledger, self.stores.settings.start_date
            )
            written = tuple(write_events(self.stores.lake, dated.events, f"{name}.{attempt}"))
            parts = (*written, *quarantined)
            lines[0].gained.out_of_range = dated.out_of_range
            stored = replace(
                retried,
                parts=parts,
                sessions=dated.new_sessions,
                left_out=kept.left_out,
                gained=tuple((each.offset, _gained(each, kept)) for each in lines),
            )
            try:
                QuarantineRetries(self.stores.ledger).commit_retry(stored, hold)
                break
            except ForgottenMeanwhileError:
                for part in written:  # they may have rows of what was forgotten
                    self.stores.lake.store.delete(part.path)
        report.resolved += sum(len(each.resolved) for each in lines)
        report.unresolved += [entry for each in lines for entry in each.unresolved]
        report.events += kept.events.height
        report.dates.update(part.session_date for part in parts if part.session_date)

    def _write_quarantine(self, lines: list[RetriedLine], name: str) -> tuple[NewPart, ...]:
        """Write the records that are still unreadable in lines that can now be parsed."""
        frame = pl.concat([each.newly_quarantined for each in lines])
        if frame.is_empty():
            return ()
        return (self.stores.lake.write_part(frame, QUARANTINE, None, name),)


def _gained(line: RetriedLine, kept: KeptEvents) -> IngestCounts:
    """Return the gained counts of a line without its events that were left out as forgotten."""
    stored = kept.events.filter(pl.col("source_offset") == line.offset).height
    left_out = line.events.height - stored
    return replace(line.gained, events=line.gained.events - left_out, forgotten=left_out)


def _sum_names(lines: Iterable[RetriedLine]) -> dict[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for each in lines:
        for name, records in each.names.items():
            total[name] = total.get(name, 0) + records
    return total
