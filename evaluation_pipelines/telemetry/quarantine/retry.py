"""Read lines in quarantine again after the program or a setting was fixed, and unread spans.

The batch that a line came with is read again as a whole. What it has now takes the place of its
rows in the lake and of its counts, in one commit: a second or interrupted retry changes nothing.
"""

import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, QUARANTINE
from evaluation_pipelines.schemas.table import UTC_TIME
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired, expired_dates
from evaluation_pipelines.storage.lock import INGEST, Hold, held
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.storage.replaced_parts import TABLES_BY_NAME, replace_parts
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import select_records
from evaluation_pipelines.telemetry.domain.reader import EventBatch, first_bytes
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.forgotten_events import ForgottenEvents
from evaluation_pipelines.telemetry.late_parents import file_late
from evaluation_pipelines.telemetry.ledger.forgotten_store import ForgottenMeanwhileError
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    SourceFile,
    SourceFiles,
    replace_batch,
)
from evaluation_pipelines.telemetry.quarantine.entries import (
    WHOLE_LINE,
    QuarantineEntry,
    all_entries,
    quarantine_rows,
    to_entries,
    with_index,
)
from evaluation_pipelines.telemetry.reading import ByteRange, event_reader
from evaluation_pipelines.telemetry.reread import (
    REPLACED,
    NotRereadError,
    ReadFile,
    opened_again,
)
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, write_events
from evaluation_pipelines.telemetry.unread_files import known_identities

CHANGED = "the file has other content now"
CUT_OFF = (
    "the compressed file could not be read from this line to its end: put a fixed copy under "
    "another name into the landing folder (after raising EVAL_MAX_DECOMPRESSION_RATIO, if that was "
    "the limit). Events that are already stored count once"
)

_TABLES = {table.name for table in (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, QUARANTINE)}


@dataclass(slots=True)
class RetryReport:
    """Result of one retry.

    Attributes:
        resolved: Number of entries that could be read.
        events: Number of events stored for them.
        dates: Dates with new events.
        unresolved: Entries that still cannot be read, each with its reason.
        unread: Files whose spans cannot be read, each with the reason.
    """

    resolved: int = 0
    events: int = 0
    dates: set[date] = field(default_factory=set)
    unresolved: list[tuple[QuarantineEntry, str]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retry:
    """Reads the batches of entries again; ``clock`` returns the time."""

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def read_spans(self) -> RetryReport:
        """Read batches that landed before spans were read. Raises as ``run`` does."""
        return self._retry(None, IngestBatches(self.stores.ledger).without_spans())

    def run(self, path: str | None = None) -> RetryReport:
        """Read all entries again, or those of one file, while nothing is ingested.

        Raises:
            LakeError: a part cannot be read or written. Batches committed before stay.
            LockTimeoutError: another process ingests for too long.
            LockLostError: another process may ingest by now. Batches committed before stay.
            LedgerError: the ledger cannot be used.
        """
        return self._retry(path, None)

    def _retry(self, path: str | None, unread: Mapping[str, set[int]] | None) -> RetryReport:
        """Read the batches of entries again, or the ``unread`` ones."""
        timeout_s = self.stores.settings.lock_timeout_seconds
        report = RetryReport()
        with held(self.stores.ledger, INGEST, timeout_s=timeout_s) as hold:
            rows = all_entries(self.stores)
            if path is not None:
                rows = rows.filter(pl.col("path") == path)
            by_file = rows.partition_by("file_id", as_dict=True, maintain_order=True)
            entries = {str(file_id): to_entries(part) for (file_id,), part in by_file.items()}
            present, _ = self.stores.landing.list_files(known_identities(self.stores))
            for file_id in entries if unread is None else unread:
                source = SourceFiles(self.stores.ledger).get(file_id)
                file_entries, offsets = entries.get(file_id, []), (unread or {}).get(file_id, ())
                self._retry_file(source, present, file_entries, offsets, hold, report)
            file_late(self.stores, self.clock(), hold)
        return report

    def _retry_file(
        self,
        source: SourceFile,
        present: Sequence[LandingFile],
        entries: Sequence[QuarantineEntry],
        unread: Collection[int],
        hold: Hold,
        report: RetryReport,
    ) -> None:
        """Read again the batches of entries, and those of ``unread`` offsets."""
        left, unread_left, why_not = list(entries), set(unread), REPLACED  # if no batch has them
        try:
            with opened_again(self.stores, source, present) as file:
                for batch in IngestBatches(self.stores.ledger).of_file(source.file_id):
                    in_batch = [entry for entry in left if batch.has(entry.offset)]
                    is_unread = batch.from_offset in unread_left
                    if in_batch or is_unread:
                        again = (file, batch, in_batch, is_unread)
                        _BatchRetry(self.stores, self.clock, *again, hold, report).run()
                    left = [entry for entry in left if not batch.has(entry.offset)]
                    unread_left.discard(batch.from_offset)
        except NotRereadError as error:
            why_not = str(error)
        report.unresolved += [(entry, why_not) for entry in left]
        if unread_left:
            report.unread[source.path] = why_not


@dataclass(frozen=True, slots=True)
class _BatchRetry:
    """One batch of an open file, read again.

    Attributes:
        stores: The stores.
        clock: Returns the time.
        file: The file.
        batch: The batch as it was read before.
        entries: Its lines and records in quarantine.
        is_unread: Whether it has spans that were not read before.
        hold: The lock of the ingest.
        report: Gets the result.
    """

    stores: Stores
    clock: Callable[[], datetime]
    file: ReadFile
    batch: IngestBatch
    entries: Sequence[QuarantineEntry]
    is_unread: bool
    hold: Hold
    report: RetryReport

    def run(self) -> None:
        """Replace what the batch has, and add to the report."""
        batch = self.batch
        byte_range = ByteRange(batch.from_offset, batch.to_offset)
        try:
            found = self.file.read(batch.file_id, byte_range, batch.ingested_at)
            names = self._uncounted_names()
        except FileNotFoundError:
            raise
        except OSError:
            self._refuse()
            return
        if self.is_unread:
            names += found.span_names
        while not self._replace(found, names):
            pass

    def _refuse(self) -> None:
        """Report that the file has other content."""
        self.report.unresolved += [(entry, CHANGED) for entry in self.entries]
        if self.is_unread:
            self.report.unread[self.file.path] = CHANGED

    def _replace(self, found: EventBatch, names: Counter[tuple[str, str]]) -> bool:
        """Replace its rows; return False if the lake or erased events have changed meanwhile."""
        ledger, report = self.stores.ledger, self.report
        forgotten, expired = ForgottenEvents(self.stores), expired_dates(ledger)
        kept = forgotten.leave_out(found.events)
        dated = assign_session_dates(kept.events, ledger, self.stores.settings.start_date)
        gone = [day for day, kind in expired.items() if kind == "events"]
        events = dated.events.filter(~pl.col("session_date").is_in(gone))
        quarantined = self._quarantined(found, forgotten)
        old = self._old_parts({*events["session_date"]})
        before = [event_id for part in old for event_id in self._event_ids(part)]
        if not set(before) <= {*found.events["event_id"]}:
            self._refuse()
            return True
        left = to_entries(with_index(quarantined))
        if (
            self.is_unread
            or _reasons(left) != _reasons(self.entries)
            or ({*events["event_id"]} != set(before))
        ):
            # Events that were erased or have expired stay counted; others like them are left out.
            erased = self.batch.counts.events - len(before)
            counts = replace(
                found.counts,
                events=events.height + erased,
                forgotten=max(0, found.events.height - events.height - erased),
                out_of_range=dated.out_of_range,
            )
            batch = replace(
                self.batch,
                sessions=tuple(
                    start for start in dated.new_sessions if start.session_date not in gone
                ),
                left_out=kept.left_out,
                outcomes=forgotten.left_outcomes(found.outcomes),
                names=names,
                counts=counts,
            )
            if not self._commit(batch, events, quarantined, old, expired):
                return False
        reasons = _reasons(left)
        report.resolved += sum(_place(entry) not in reasons for entry in self.entries)
        report.unresolved += [
            (entry, entry.reason if entry.length_bytes else CUT_OFF) for entry in left
        ]
        report.events += events.height - len(before)
        report.dates |= {*events.filter(~pl.col("event_id").is_in(before))["session_date"]}
        return True

    def _commit(
        self,
        batch: IngestBatch,
        events: pl.DataFrame,
        quarantined: pl.DataFrame,
        old: Sequence[Part],
        expired: Mapping[date, Expired],
    ) -> bool:
        """Store a batch and new parts in place of its rows; return False as ``_replace`` does."""
        ledger, lake, now = self.stores.ledger, self.stores.lake, self.clock()
        name = f"{batch.file_id}-retry-{batch.from_offset}.{uuid.uuid4().hex[:8]}"
        written = list(write_events(lake, events, name))
        if not quarantined.is_empty():
            written.append(lake.write_part(quarantined, QUARANTINE, None, name))
        parts = tuple(
            part
            for part in written
            if part.table_name != EVENT_TEXTS_LANDED.name or part.session_date not in expired
        )
        stored = replace(batch, parts=parts)
        rows = ((part, self._read(part).filter(~self._belongs_to_batch(part))) for part in old)
        changes = None
        try:
            with suppress(ForgottenMeanwhileError):
                changes = replace_parts(
                    *(ledger, lake, self.hold, rows, now),
                    lambda connection, _: replace_batch(connection, stored, now),
                )
        finally:
            for part in written:
                if changes is None or part not in parts:
                    lake.store.delete(part.path)
        return changes is not None

    def _quarantined(self, found: EventBatch, forgotten: ForgottenEvents) -> pl.DataFrame:
        """Return what is left of the entries: QUARANTINE, with the time of the first attempt.

        Other lines that cannot be read were entries that expired or were erased.
        """
        path = self.entries[0].path if self.entries else self.file.path
        rows = quarantine_rows(found, self.batch.file_id, path, forgotten, self.clock)
        lines = pl.DataFrame(
            [
                (entry.offset, entry.offset + max(entry.length_bytes, 1), entry.quarantined_at)
                for entry in self.entries
            ],
            schema={"offset": pl.Int64, "end": pl.Int64, "quarantined_at": UTC_TIME},
            orient="row",
        ).unique("offset", keep="first", maintain_order=True)
        dated = rows.drop("quarantined_at").sort("offset").join_asof(lines, on="offset")
        return dated.filter(pl.col("offset") < pl.col("end")).select(QUARANTINE.schema.names())

    def _old_parts(self, dates: Collection[date]) -> list[Part]:
        """Return the parts with rows of the batch."""
        stores, batch = self.stores, self.batch
        known = IngestBatches(stores.ledger).parts_of(batch.file_id, batch.from_offset)
        return [
            part
            for part in Manifest(stores.ledger).all_tables()
            if part.table_name in _TABLES
            and (part.part_id in known or part.session_date in dates or part.session_date is None)
            and (part.session_date is not None or stores.lake.store.exists(part.path))
            and self._read(part, _columns(part))
            .select(self._belongs_to_batch(part))
            .to_series()
            .any()
        ]

    def _read(self, part: Part, columns: Sequence[str] | None = None) -> pl.DataFrame:
        return self.stores.lake.read_part(part, TABLES_BY_NAME[part.table_name], columns)

    def _belongs_to_batch(self, part: Part) -> pl.Expr:
        """Return a condition for the rows of the batch."""
        file_id, offset = map(pl.col, _columns(part))
        first, end = self.batch.from_offset, self.batch.to_offset
        return (file_id == self.batch.file_id) & offset.is_between(first, end, closed="left")

    def _event_ids(self, part: Part) -> list[str]:
        """Return the ids of the events that the batch has in a part."""
        if part.table_name != AGENT_EVENTS_LANDED.name:
            return []
        rows = self._read(part, ["event_id", *_columns(part)])
        return rows.filter(self._belongs_to_batch(part))["event_id"].to_list()

    def _uncounted_names(self) -> Counter[tuple[str, str]]:
        """Return the records of the entries that are not stored: they were not counted before.

        Raises:
            OSError: A line has other content than before.
        """
        settings, batch, names = self.stores.settings, self.batch, Counter[tuple[str, str]]()
        reader = event_reader(settings, batch.ingested_at, organization_of(self.file.path))
        lines = groupby(self.entries, lambda entry: entry.offset)
        waiting = deque(list(entries) for _, entries in lines)
        for line in self.file.documents().read(batch.from_offset, batch.to_offset):
            while waiting and waiting[0][0].offset < line.next_offset:
                entries = waiting.popleft()
                first, indices = entries[0], [entry.record_index for entry in entries]
                start = first.offset - line.offset
                text = line.text[start : start + first.length_bytes]
                if first.first_bytes not in ("", first_bytes(text)):
                    raise OSError(CHANGED)
                with suppress(MalformedLineError):
                    chosen = text if WHOLE_LINE in indices else select_records(text, indices)
                    reader.read(chosen, Origin(batch.file_id, first.offset))
                for name, number in reader.take(0).names.items():
                    names[name] += number * first.lines
        return names


def _place(entry: QuarantineEntry) -> tuple[int, int]:
    return entry.offset, entry.record_index


def _reasons(entries: Sequence[QuarantineEntry]) -> dict[tuple[int, int], str]:
    return {_place(entry): entry.reason for entry in entries}


def _columns(part: Part) -> tuple[str, str]:
    """Return the columns with file and offset of a row."""
    is_quarantine = part.table_name == QUARANTINE.name
    return ("file_id", "offset") if is_quarantine else ("source_file_id", "source_offset")
