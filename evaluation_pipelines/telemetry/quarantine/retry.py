"""Read lines in quarantine again after the program or a setting was fixed, and unread spans.

The batch that a line came with is read again as a whole. What it has now takes the place of its
rows in the lake and of its counts, in one commit: a second or interrupted retry changes nothing.

Read landing files again for landed parts whose files are damaged or missing.

The manifest knows the bytes that each landed part was read from. A part is replaced only if these
bytes give as many rows as it had, so that no event is lost or stored twice.
"""

import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    QUARANTINE,
    TEXT_KEY,
    Table,
)
from evaluation_pipelines.schemas.table import UTC_TIME
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired, RebuildQueue, expired_dates
from evaluation_pipelines.storage.lock import INGEST, Hold, held
from evaluation_pipelines.storage.parts import BUCKET, NewPart, Part, PartOrigin, buckets_of
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.storage.replaced_parts import replace_parts
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import Documents
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
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    event_reader,
    open_documents,
    read_byte_range,
)
from evaluation_pipelines.telemetry.session_dates import (
    assign_session_dates,
    landed_rows,
    write_events,
)
from evaluation_pipelines.telemetry.unread_files import is_same_file, known_identities

GONE = "the file is no longer in the landing folder"
REPLACED = "the file was emptied or replaced since it was read"
CHANGED = "the file has other content now"
CUT_OFF = (
    "the compressed file could not be read from this line to its end: put a fixed copy under "
    "another name into the landing folder (after raising EVAL_MAX_DECOMPRESSION_RATIO, if that was "
    "the limit). Events that are already stored count once"
)


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
            frame = all_entries(self.stores)
            if path is not None:
                frame = frame.filter(pl.col("path") == path)
            files, _ = self.stores.landing.list_files(known_identities(self.stores))
            present = {
                (landing_file.device, landing_file.inode): landing_file for landing_file in files
            }
            of_files = frame.partition_by("file_id", as_dict=True, maintain_order=True)
            entries = {str(file_id): to_entries(rows) for (file_id,), rows in of_files.items()}
            for file_id in entries if unread is None else unread:
                source = SourceFiles(self.stores.ledger).get(file_id)
                file = present.get((source.device, source.inode))
                of_file, spans = entries.get(file_id, []), (unread or {}).get(file_id, set())
                self._retry_file(file, source, of_file, spans, hold, report)
            file_late(self.stores, self.clock(), hold)
        return report

    def _retry_file(
        self,
        file: LandingFile | None,
        source: SourceFile,
        entries: Sequence[QuarantineEntry],
        unread: Collection[int],
        hold: Hold,
        report: RetryReport,
    ) -> None:
        """Read the batches of entries again, and those whose spans are ``unread``."""
        left, why, to_read = list(entries), GONE, set(unread)
        try:
            if file is not None:
                with self.stores.landing.open(file) as handle:
                    why = REPLACED
                    if is_same_file(handle, source):
                        for batch in IngestBatches(self.stores.ledger).of_file(source.file_id):
                            of_batch = [entry for entry in left if batch.has(entry.offset)]
                            left = [entry for entry in left if not batch.has(entry.offset)]
                            is_unread = batch.from_offset in to_read
                            to_read.discard(batch.from_offset)
                            if of_batch or is_unread:
                                retry = _BatchRetry(
                                    self.stores, self.clock, handle, file.path, batch, is_unread
                                )
                                retry.run(of_batch, hold, report)
        except FileNotFoundError:
            why = GONE
        report.unresolved += [(entry, why) for entry in left]
        if to_read:
            report.unread[source.path] = why


_TABLES = {
    known_table.name: known_table
    for known_table in (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, QUARANTINE)
}


@dataclass(frozen=True, slots=True)
class _BatchRetry:
    """One batch of an open file, read again."""

    stores: Stores
    clock: Callable[[], datetime]
    handle: BinaryIO
    path: str
    batch: IngestBatch
    is_unread: bool

    def run(self, entries: Sequence[QuarantineEntry], hold: Hold, report: RetryReport) -> None:
        """Replace what the batch has, and add to the report."""
        settings, batch = self.stores.settings, self.batch
        documents = self._documents()
        byte_range = ByteRange(batch.from_offset, batch.to_offset)
        organization = organization_of(self.path)
        try:
            found = read_byte_range(
                documents, batch.file_id, byte_range, settings, batch.ingested_at, organization
            )
            names = self._names(entries)
        except FileNotFoundError:
            raise
        except OSError:
            self._is_changed(entries, report)
            return
        if self.is_unread:
            names += found.span_names
        while not self._is_replaced(found, names, entries, hold, report):
            pass

    def _is_changed(self, entries: Sequence[QuarantineEntry], report: RetryReport) -> None:
        report.unresolved += [(entry, CHANGED) for entry in entries]
        if self.is_unread:
            report.unread[self.path] = CHANGED

    def _documents(self) -> Documents:
        self.handle.seek(0)  # a beginning is read from where the file is
        return open_documents(self.handle, self.stores.settings)

    def _is_replaced(
        self,
        found: EventBatch,
        names: Counter[tuple[str, str]],
        entries: Sequence[QuarantineEntry],
        hold: Hold,
        report: RetryReport,
    ) -> bool:
        """Return False if the lake or what was forgotten has changed meanwhile."""
        ledger, lake, now = self.stores.ledger, self.stores.lake, self.clock()
        forgotten, expired = ForgottenEvents(self.stores), expired_dates(ledger)
        kept = forgotten.leave_out(found.events)
        dated = assign_session_dates(kept.events, ledger, self.stores.settings.start_date)
        gone = [day for day, what in expired.items() if what == "events"]
        events = dated.events.filter(~pl.col("session_date").is_in(gone))
        quarantined = self._quarantined(found, entries, forgotten)
        old = self._old_parts({*events["session_date"]})
        before = [event_id for part in old for event_id in self._event_ids(part)]
        if not set(before) <= {*found.events["event_id"]}:
            self._is_changed(entries, report)
            return True
        left = to_entries(with_index(quarantined))
        reasons = {(entry.offset, entry.record_index): entry.reason for entry in left}
        is_same = reasons == {(entry.offset, entry.record_index): entry.reason for entry in entries}
        if self.is_unread or not is_same or {*events["event_id"]} != set(before):
            name = f"{self.batch.file_id}-retry-{self.batch.from_offset}.{uuid.uuid4().hex[:8]}"
            parts = list(write_events(lake, events, name))
            if not quarantined.is_empty():
                parts.append(lake.write_part(quarantined, QUARANTINE, None, name))
            # Events that were erased or have expired stay counted; others like them are left out.
            erased = self.batch.counts.events - len(before)
            batch = replace(
                self.batch,
                parts=tuple(e for e in parts if not _is_expired_text(e, expired)),
                sessions=tuple(e for e in dated.new_sessions if e.session_date not in gone),
                left_out=kept.left_out,
                outcomes=forgotten.left_outcomes(found.outcomes),
                names=names,
                counts=replace(
                    found.counts,
                    events=events.height + erased,
                    forgotten=max(0, found.events.height - events.height - erased),
                    out_of_range=dated.out_of_range,
                ),
            )
            rows = ((part, self._without_batch(part)) for part in old)
            is_done = False
            try:
                is_done = (
                    replace_parts(
                        ledger, lake, hold, rows, now, lambda c, _: replace_batch(c, batch, now)
                    )
                    is not None
                )
            except ForgottenMeanwhileError:
                pass
            finally:
                for new_part in parts:
                    if not is_done or new_part not in batch.parts:
                        lake.store.delete(new_part.path)
            if not is_done:
                return False
        report.resolved += sum((e.offset, e.record_index) not in reasons for e in entries)
        report.unresolved += [(e, e.reason if e.length_bytes else CUT_OFF) for e in left]
        report.events += events.height - len(before)
        report.dates |= {*events.filter(~pl.col("event_id").is_in(before))["session_date"]}
        return True

    def _quarantined(
        self, found: EventBatch, entries: Sequence[QuarantineEntry], forgotten: ForgottenEvents
    ) -> pl.DataFrame:
        """Return what is left of the entries: QUARANTINE, with the time of the first attempt.

        Other lines that cannot be read were entries that expired or were erased.
        """
        path = entries[0].path if entries else self.path
        rows = quarantine_rows(found, self.batch.file_id, path, forgotten, self.clock)
        lines = pl.DataFrame(
            [(e.offset, e.offset + max(e.length_bytes, 1), e.quarantined_at) for e in entries],
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
            and self._read(part, _place(part)).select(self._is_of(part)).to_series().any()
        ]

    def _read(self, part: Part, columns: Sequence[str] | None = None) -> pl.DataFrame:
        return self.stores.lake.read_part(part, _TABLES[part.table_name], columns)

    def _is_of(self, part: Part) -> pl.Expr:
        """Return a condition for the rows of the batch."""
        file_id, offset = map(pl.col, _place(part))
        first, end = self.batch.from_offset, self.batch.to_offset
        return (file_id == self.batch.file_id) & offset.is_between(first, end, closed="left")

    def _event_ids(self, part: Part) -> list[str]:
        if part.table_name != AGENT_EVENTS_LANDED.name:
            return []
        rows = self._read(part, ["event_id", *_place(part)])
        return rows.filter(self._is_of(part))["event_id"].to_list()

    def _without_batch(self, part: Part) -> pl.DataFrame:
        return self._read(part).filter(~self._is_of(part))

    def _names(self, entries: Sequence[QuarantineEntry]) -> Counter[tuple[str, str]]:
        """Return the records of the entries that are not stored: they were not counted before.

        Raises:
            OSError: A line has other content than before.
        """
        settings, batch, names = self.stores.settings, self.batch, Counter[tuple[str, str]]()
        reader = event_reader(settings, batch.ingested_at, organization_of(self.path))
        waiting = deque(list(group) for _, group in groupby(entries, lambda each: each.offset))
        for line in self._documents().read(batch.from_offset, batch.to_offset):
            while waiting and waiting[0][0].offset < line.next_offset:
                of_line = waiting.popleft()
                start = of_line[0].offset - line.offset
                text = line.text[start : start + of_line[0].length_bytes]
                if of_line[0].first_bytes not in ("", first_bytes(text)):
                    raise OSError(CHANGED)
                indices = [entry.record_index for entry in of_line]
                with suppress(MalformedLineError):
                    chosen = text if WHOLE_LINE in indices else select_records(text, indices)
                    reader.read(chosen, Origin(batch.file_id, of_line[0].offset))
                for name, number in reader.take(0).names.items():
                    names[name] += number * of_line[0].lines
        return names


def _place(part: Part) -> tuple[str, str]:
    """Return the columns with file and offset of a row."""
    is_quarantine = part.table_name == QUARANTINE.name
    return ("file_id", "offset") if is_quarantine else ("source_file_id", "source_offset")


def _is_expired_text(part: NewPart, expired: Mapping[date, Expired]) -> bool:
    return part.table_name == EVENT_TEXTS_LANDED.name and part.session_date in expired


class NotRereadError(Exception):
    """A part cannot be read again; the message says why."""


@dataclass(frozen=True, slots=True)
class RereadPart:
    """A damaged part: what is wrong with it, and why it was not replaced (None if it was)."""

    part: Part
    damage: str
    why_not: str | None


@dataclass(frozen=True, slots=True)
class Reread:
    """Reads landing files again for damaged landed parts; ``clock`` returns the time."""

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, wanted: Callable[[date], bool] = lambda _day: True) -> list[RereadPart]:
        """Verify the landed parts of some dates, and replace the damaged ones.

        Dates with a replaced part are queued for a build.

        Raises:
            LakeError: A new part cannot be written.
            LedgerError: The ledger cannot be used.
        """
        files, _ = self.stores.landing.list_files(known_identities(self.stores))
        results = [
            self._reread(table, part, damage, files)
            for table in (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED)
            for part, damage in self._damaged(table, wanted)
        ]
        dates = {result.part.session_date for result in results if result.why_not is None}
        RebuildQueue(self.stores.ledger).touch({day for day in dates if day}, self.clock())
        return results

    def _damaged(self, table: Table, wanted: Callable[[date], bool]) -> Iterator[tuple[Part, str]]:
        for part in Manifest(self.stores.ledger).all_current(table.name):
            if part.session_date is not None and wanted(part.session_date):
                try:
                    self.stores.lake.verify(part)
                except LakeError as error:
                    yield part, str(error)

    def _reread(
        self, table: Table, part: Part, damage: str, present: Sequence[LandingFile]
    ) -> RereadPart:
        try:
            self._replace(table, part, present)
        except (NotRereadError, PartsNotCurrentError) as error:
            return RereadPart(part, damage, str(error))
        return RereadPart(part, damage, None)

    def _replace(self, table: Table, part: Part, present: Sequence[LandingFile]) -> None:
        manifest = Manifest(self.stores.ledger)
        origins = manifest.origins(part.part_id)
        if sum(origin.row_count for origin in origins) != part.row_count:
            raise NotRereadError("it has events of lines that were retried from quarantine")
        of_origins = (self._rows(table, part, origin, present) for origin in origins)
        rows = pl.concat([table.no_rows, *of_origins])
        new = self.stores.lake.write_part(
            rows.sort(BUCKET, maintain_order=True),
            table,
            part.session_date,
            f"again-{part.part_id}-{uuid.uuid4().hex[:8]}",
        )
        manifest.replace([part.part_id], new, self.clock())

    def _rows(
        self,
        table: Table,
        part: Part,
        origin: PartOrigin,
        present: Sequence[LandingFile],
    ) -> pl.DataFrame:
        """Return the rows of a part that came from some bytes of a landing file."""
        file = self._found(SourceFiles(self.stores.ledger).get(origin.file_id), present)
        settings = self.stores.settings
        byte_range = ByteRange(origin.from_offset, origin.to_offset)
        try:
            with self.stores.landing.open(file) as handle:
                documents = open_documents(handle, settings)
                batch = read_byte_range(
                    documents,
                    origin.file_id,
                    byte_range,
                    settings,
                    origin.read_at,
                    organization_of(file.path),
                )
        except OSError as error:
            raise NotRereadError(f"{file.path} cannot be read: {error}") from error
        events = ForgottenEvents(self.stores).leave_out(batch.events).events
        dated = assign_session_dates(events, self.stores.ledger, settings.start_date)
        of_date = dated.events.filter(pl.col("session_date") == part.session_date)
        rows = landed_rows(of_date.with_columns(buckets_of(of_date["session_id"])), table)
        rows = self._without_others(table, part, origin, rows)
        if rows.height != origin.row_count:
            raise NotRereadError(
                f"bytes {origin.from_offset} to {origin.to_offset} of {file.path} give "
                f"{rows.height} rows, and gave {origin.row_count}: the file, this program or a "
                "setting has changed"
            )
        self._check_ids(table, part, rows)
        return rows

    def _without_others(
        self, table: Table, part: Part, origin: PartOrigin, rows: pl.DataFrame
    ) -> pl.DataFrame:
        """Return rows that no other part of the date has: some have moved there later."""
        manifest, key = Manifest(self.stores.ledger), (*TEXT_KEY, "organization_id")
        for other in manifest.current(table.name, part.session_date):
            is_of = (origin.file_id, origin.from_offset)
            origins = manifest.origins(other.part_id) if other.part_id != part.part_id else ()
            if any(
                (part_origin.file_id, part_origin.from_offset) == is_of for part_origin in origins
            ):
                present = self.stores.lake.read_part(other, table, key)
                rows = rows.join(present, on=key, how="anti", nulls_equal=True)
        return rows

    def _found(self, source: SourceFile, present: Sequence[LandingFile]) -> LandingFile:
        """Return the landing file: by its inode, or by its name if the folder is a copy."""
        by_inode = [e for e in present if (e.device, e.inode) == (source.device, source.inode)]
        found = [
            *by_inode,
            *(landing_file for landing_file in present if landing_file.path == source.path),
        ]
        for file in found:
            try:
                with self.stores.landing.open(file) as handle:
                    if is_same_file(handle, source):
                        return file
            except OSError as error:
                raise NotRereadError(f"{file.path} cannot be read: {error}") from error
        if found:
            raise NotRereadError(f"{source.path} was emptied or replaced since it was read")
        raise NotRereadError(f"{source.path} is no longer in the landing folder")

    def _check_ids(self, table: Table, part: Part, rows: pl.DataFrame) -> None:
        """Check that events and texts of the same lines still belong together.

        Raises:
            NotRereadError: Another version of this program made other ids.
        """
        other = AGENT_EVENTS_LANDED if table is EVENT_TEXTS_LANDED else EVENT_TEXTS_LANDED
        here = rows.select(TEXT_KEY)
        of_files = pl.col("source_file_id").is_in(here["source_file_id"].unique().to_list())
        try:
            there = self.stores.lake.read(
                other, filter(None, [part.session_date]), TEXT_KEY, of_files
            )
        except LakeError:  # damaged as well: it is read again after this one, and checked then
            return
        there = there.join(here, on=TEXT_KEY[1:], how="semi")
        texts, events = (here, there) if table is EVENT_TEXTS_LANDED else (there, here)
        if not texts.join(events, on=TEXT_KEY, how="anti").is_empty():
            raise NotRereadError(
                "its events have other ids than before: another version of this program read them"
            )
