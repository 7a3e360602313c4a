"""Ingest: from the landing folder to landed parts, every byte once.

A batch is a byte range of complete lines of one file. Its parts are written and renamed first, then
one ledger transaction moves the read position and adds the parts to the manifest. A kill before
that transaction leaves files that no reader sees; a kill after it leaves nothing to do.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.engine import Engine, open_engine
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.storage.clickhouse import ClickHouseError
from evaluation_pipelines.storage.compaction import compact_quarantine
from evaluation_pipelines.storage.landing import SkippedFile, read_head
from evaluation_pipelines.storage.ledger.ledger import ledger_time
from evaluation_pipelines.storage.lock import INGEST, Hold, LockTimeoutError, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import CUT_OFF, Documents
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.forgotten_events import ForgottenEvents
from evaluation_pipelines.telemetry.late_parents import file_late
from evaluation_pipelines.telemetry.ledger.forgotten_store import ForgottenMeanwhileError
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    OldPartsError,
    SourceFile,
    SourceFiles,
)
from evaluation_pipelines.telemetry.otel_logs import OtelLogReport, read_otel_logs
from evaluation_pipelines.telemetry.quarantine.entries import quarantine_rows
from evaluation_pipelines.telemetry.reading import (
    FILE_REPLACED,
    ByteRange,
    ByteRangeReader,
    infrequent_gc,
    open_documents,
)
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, write_events
from evaluation_pipelines.telemetry.transcript_ingest import TranscriptIngest, TranscriptReport
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    is_same_file,
    new_file_id,
)


@dataclass(slots=True)
class IngestReport:
    """Result of one ingest.

    Attributes:
        files: Number of files with new lines.
        counts: Counts of everything read.
        dates: Dates with new events.
        busy: Holder of the lock, if waiting for it timed out; nothing was read then.
        skipped: Entries of the folder that are not read, each with its reason.
        otel_logs: What was read from ClickHouse; None if nothing was to be read there.
        transcripts: New lines of transcripts of this machine, None without ``with_transcripts``.
    """

    files: int = 0
    counts: IngestCounts = field(default_factory=IngestCounts)
    dates: set[date] = field(default_factory=set)
    busy: str | None = None
    skipped: list[SkippedFile] = field(default_factory=list)
    otel_logs: OtelLogReport | None = None
    transcripts: TranscriptReport | None = None


@dataclass(frozen=True, slots=True)
class Ingest:
    """Reads all new lines of the landing folder into the lake; ``clock`` returns the time.

    With ``with_otel_logs`` new rows of ClickHouse, if a table is set, become landing files first,
    and with ``with_transcripts`` new lines of the transcripts of this machine.
    """

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    with_otel_logs: bool = False
    with_transcripts: bool = False
    _forgotten: ForgottenEvents = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_forgotten", ForgottenEvents(self.stores))

    def run(
        self, progress: Progress | None = None, report: IngestReport | None = None
    ) -> IngestReport:
        """Ingest all files, the oldest telemetry first, while no other process ingests.

        ``report`` is updated batch by batch, so that it includes all commits before an error.

        Raises:
            LockLostError: another process may ingest by now. Batches committed before stay.
            LakeError: a part cannot be written. Batches committed before stay.
            LedgerError: the ledger cannot be used.
            EngineError: a worker that decodes a file was killed, and so was its replacement.
            LandingError: the landing storage is not responding. Batches committed before stay.
        """
        report = IngestReport() if report is None else report
        timeout_s = self.stores.settings.lock_timeout_seconds
        try:
            with held(self.stores.ledger, INGEST, timeout_s=timeout_s) as hold:
                if self.with_otel_logs:
                    report.otel_logs = self._read_rows(hold)
                if self.with_transcripts:
                    reader = TranscriptIngest(self.stores, hold, self.clock)
                    report.transcripts = reader.run(progress or Silent())
                self._run(hold, progress or Silent(), report)
        except LockTimeoutError as error:
            report.busy = str(error)
        return report

    def _read_rows(self, hold: Hold) -> OtelLogReport | None:
        """Write new rows of ClickHouse to the landing folder, as far as they can be read."""
        report = OtelLogReport()
        try:
            return read_otel_logs(self.stores, hold, self.clock, report)
        except (ClickHouseError, OSError) as error:
            return replace(report, why_not=str(error))

    def _run(self, hold: Hold, progress: Progress, report: IngestReport) -> None:
        unread_files, skipped = find_unread_files(self.stores)
        report.skipped += skipped
        progress.begin("reading telemetry", sum(unread.unread_bytes for unread in unread_files))
        settings = self.stores.settings
        chosen = open_engine(settings.engine, settings.ledger_url, settings.ingest_processes)
        with chosen as engine, infrequent_gc():
            for unread in unread_files:
                file = unread.file
                try:
                    self._ingest_file(unread, engine, hold, report, progress)
                except OSError as error:
                    report.skipped.append(
                        SkippedFile(
                            self.stores.landing.shown(file.path), f"cannot be read: {error}"
                        )
                    )
        file_late(self.stores, self.clock(), hold)
        if report.counts.quarantined:
            compact_quarantine(self.stores, self.clock())

    def _source(self, unread_file: UnreadFile) -> SourceFile:
        """Return the ledger record of a file; add an unknown file."""
        if unread_file.source is not None:
            return unread_file.source
        file = unread_file.file
        with self.stores.landing.open(file) as handle:
            head = read_head(handle)
        source = SourceFile(
            file_id=new_file_id(file, unread_file.generation),
            device=file.device,
            inode=file.inode,
            head_bytes=head.size_bytes,
            head_sha256=head.sha256,
            path=file.path,
            size_bytes=file.size_bytes,
            first_seen_at=self.clock(),
        )
        SourceFiles(self.stores.ledger).add(source)
        return SourceFiles(self.stores.ledger).get(source.file_id)

    def _ingest_file(
        self,
        unread_file: UnreadFile,
        engine: Engine,
        hold: Hold,
        report: IngestReport,
        progress: Progress,
    ) -> None:
        file, source = unread_file.file, self._source(unread_file)
        files, begun_at = SourceFiles(self.stores.ledger), self._shared_time()
        if (source.path, source.size_bytes) != (file.path, file.size_bytes):
            files.update_path(source.file_id, file.path, file.size_bytes)
        with self.stores.landing.open(file) as handle:
            source = files.get(source.file_id)
            position = end = source.position
            documents = open_documents(handle, self.stores.settings, is_final=unread_file.is_final)
            reader = ByteRangeReader(
                location=self.stores.landing.location,
                file=file,
                file_id=source.file_id,
                handle=handle,
                documents=documents,
                settings=self.stores.settings,
                engine=engine,
                clock=self.clock,
            )
            for batch, byte_range in reader.batches(position):
                self._land(batch, byte_range, source, handle, hold, begun_at, report)
                begun_at = self._shared_time()
                progress.advance(byte_range.end - byte_range.start)
                report.files += byte_range.start == position
                end = byte_range.end
            unfinished = self._unfinished(documents, file.size_bytes - end)
            if unfinished is not None:
                report.skipped.append(SkippedFile(self.stores.landing.shown(file.path), unfinished))
            if documents.form.is_stream or not self.stores.landing.grows:
                files.mark_finished(source.file_id, file.size_bytes, unfinished)

    def _unfinished(self, documents: Documents, unread_bytes: int) -> str | None:
        """Return what is missing at the end of a file that was read as far as possible."""
        if self.stores.landing.grows or documents.form.is_stream or not unread_bytes:
            return documents.unfinished
        return f"it ends within a line: its last {unread_bytes:,} bytes are not read"

    def _shared_time(self) -> datetime:
        """Return the time shared by all machines that use the ledger."""
        return ledger_time(self.stores.ledger, self.clock())

    def _land(
        self,
        batch: EventBatch,
        byte_range: ByteRange,
        source: SourceFile,
        handle: BinaryIO,
        hold: Hold,
        begun_at: datetime,
        report: IngestReport,
    ) -> None:
        """Write the parts of a batch, then commit it."""
        name = f"{source.file_id}-{byte_range.start}-{byte_range.end}.{uuid.uuid4().hex[:8]}"
        # A writer may append to the file now: only consumed bytes identify it.
        head = read_head(handle, byte_range.end)
        if not is_same_file(handle, source):  # checked last: it was the same file until now
            raise OSError(FILE_REPLACED)
        for attempt in count():
            kept = self._forgotten.leave_out(batch.events)
            dated = assign_session_dates(
                kept.events, self.stores.ledger, self.stores.settings.start_date
            )
            parts = (
                *write_events(self.stores.lake, dated.events, f"{name}.{attempt}"),
                *self._write_quarantine(batch, source, byte_range, f"{name}.{attempt}"),
            )
            counts = replace(
                batch.counts,
                events=kept.events.height,
                forgotten=kept.number,
                out_of_range=dated.out_of_range,
            )
            try:
                IngestBatches(self.stores.ledger).commit_batch(
                    IngestBatch(
                        file_id=source.file_id,
                        from_offset=byte_range.start,
                        to_offset=byte_range.end,
                        head_bytes=head.size_bytes,
                        head_sha256=head.sha256,
                        ingested_at=self.clock(),
                        last_event_time=_latest(kept.events),
                        parts=parts,
                        sessions=dated.new_sessions,
                        counts=counts,
                        left_out=kept.left_out,
                        names=batch.names,
                        written_after=begun_at,
                        outcomes=self._forgotten.left_outcomes(batch.outcomes),
                    ),
                    hold,
                )
                break
            except OldPartsError:
                begun_at = self._shared_time()
            except ForgottenMeanwhileError:
                for part in parts:  # they may contain erased events
                    self.stores.lake.store.delete(part.path)
        path = self.stores.landing.shown(source.path)
        report.skipped += [
            SkippedFile(
                path, f"{line.length_bytes:,} bytes from byte {line.offset:,} on: {CUT_OFF}"
            )
            for line in batch.quarantined
            if line.reason == CUT_OFF
        ]
        report.counts.add(counts)
        report.dates.update(part.session_date for part in parts if part.session_date)

    def _write_quarantine(
        self, batch: EventBatch, source: SourceFile, byte_range: ByteRange, name: str
    ) -> tuple[NewPart, ...]:
        frame = quarantine_rows(batch, source.file_id, source.path, self._forgotten, self.clock)
        if frame.is_empty():
            return ()
        return (self.stores.lake.write_part(frame, QUARANTINE, None, name),)


def _latest(events: pl.DataFrame) -> datetime | None:
    latest = events["event_time"].max()
    return latest if isinstance(latest, datetime) else None
