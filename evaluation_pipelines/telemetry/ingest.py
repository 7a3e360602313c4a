"""Ingest: from the landing folder to landed parts, every byte once.

A batch is a stretch of complete lines of one file. Its parts are written and renamed first, then
one transaction of the ledger moves the file's position and names the parts. A kill before that
transaction leaves orphans that nobody reads; a kill after it leaves nothing to do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.storage.landing import LandingFile, SkippedFile, read_head
from evaluation_pipelines.storage.lease_owner import is_gone, new_owner
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.byte_ranges import ByteRangeReader
from evaluation_pipelines.telemetry.compaction import tidy_quarantine
from evaluation_pipelines.telemetry.decode_pool.pool import DecodePool
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.ledger.errors import (
    LeaseLostError,
    PositionMovedError,
    SessionDateTakenError,
)
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.ledger.records import IngestBatch, NewPart, SourceFile
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines.telemetry.reading import ByteRange, few_collections, open_documents
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, write_events
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    is_same,
    new_file_id,
)


@dataclass(slots=True)
class IngestReport:
    """What one ingest did.

    Attributes:
        files: Files that had something new.
        counts: Everything read, in numbers.
        dates: Dates that got new events.
        busy: Paths that another ingest was reading at the time.
        passed_over: What lies in the folder and is not read, with the reason.
    """

    files: int = 0
    counts: IngestCounts = field(default_factory=IngestCounts)
    dates: set[date] = field(default_factory=set)
    busy: list[str] = field(default_factory=list)
    passed_over: list[SkippedFile] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ingest:
    """Reads everything new in the landing folder into the lake.

    ``clock`` gives the time; tests give it another.
    """

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(
        self, progress: Progress | None = None, report: IngestReport | None = None
    ) -> IngestReport:
        """Ingest all files, the oldest telemetry first.

        ``report`` is filled in batch by batch: who gave it knows what was committed before an
        error.

        Raises:
            LakeError: a part cannot be written. What was committed before stays.
            LedgerError: the ledger cannot be used.
        """
        progress = progress or Silent()
        report = IngestReport() if report is None else report
        arrivals, passed_over = find_unread_files(self.stores)
        report.passed_over += passed_over
        unread = sum(max(each.file.size_bytes - each.position, 0) for each in arrivals)
        progress.begin("reading telemetry", unread)
        with DecodePool(self.stores.settings) as crew, few_collections():
            for arrival in arrivals:
                file = arrival.file
                try:
                    self._ingest_file(file, self._source(arrival), crew, report, progress)
                except OSError as error:
                    report.passed_over.append(SkippedFile(file.path, f"cannot be read: {error}"))
        if report.counts.quarantined:
            tidy_quarantine(self.stores, self.clock())
        return report

    def _source(self, arrival: UnreadFile) -> SourceFile:
        """What the ledger knows of a file; one that it does not know is added."""
        if arrival.source is not None:
            return arrival.source
        file = arrival.file
        with self.stores.landing.open(file) as handle:
            head = read_head(handle)
        source = SourceFile(
            file_id=new_file_id(file, arrival.generation),
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
        file: LandingFile,
        source: SourceFile,
        crew: DecodePool,
        report: IngestReport,
        progress: Progress,
    ) -> None:
        files, owner = SourceFiles(self.stores.ledger), new_owner()
        if (source.path, source.size_bytes) != (file.path, file.size_bytes):
            files.seen(source.file_id, file.path, file.size_bytes)
        if source.lease_owner is not None and is_gone(source.lease_owner):
            files.release_lease(source.file_id, source.lease_owner, source.lease_epoch)
        seconds = self.stores.settings.lease_seconds
        epoch = files.acquire_lease(source.file_id, owner, seconds, self.clock())
        if epoch is None:
            report.busy.append(file.path)
            return
        try:
            with self.stores.landing.open(file) as handle:
                source = files.get(source.file_id)
                position = source.position
                documents = open_documents(handle, file.path, self.stores.settings)
                reader = ByteRangeReader(
                    root=self.stores.landing.root,
                    file=file,
                    file_id=source.file_id,
                    handle=handle,
                    documents=documents,
                    settings=self.stores.settings,
                    crew=crew,
                    clock=self.clock,
                )
                for batch, stretch in reader.batches(position):
                    self._land(batch, stretch, source, handle, epoch, report)
                    files.renew_lease(source.file_id, owner, epoch, seconds, self.clock())
                    progress.advance(stretch.end - stretch.start)
                    report.files += stretch.start == position
                if documents.ends_early:
                    report.passed_over.append(SkippedFile(file.path, "its end is missing"))
                elif documents.form.is_stream:
                    files.finished(source.file_id, file.size_bytes)
        except (LeaseLostError, PositionMovedError):
            report.busy.append(file.path)
        finally:
            files.release_lease(source.file_id, owner, epoch)

    def _land(
        self,
        batch: EventBatch,
        stretch: ByteRange,
        source: SourceFile,
        handle: BinaryIO,
        epoch: int,
        report: IngestReport,
    ) -> None:
        """Write the parts of a batch, then commit it."""
        name = f"{source.file_id}-{stretch.start}-{stretch.end}.{epoch}"
        quarantined = self._write_quarantine(batch, source, stretch, name)
        # The handle reads ahead of a writer that appends: only consumed bytes identify the file.
        head = read_head(handle, stretch.end)
        if not is_same(handle, source):  # looked at last: until now it was the file that was read
            raise OSError("it was emptied or replaced while it was read; the next run begins it")
        while True:
            filed = assign_session_dates(
                batch.events, self.stores.ledger, self.stores.settings.start_date
            )
            parts = (*write_events(self.stores.lake, filed.events, name), *quarantined)
            batch.counts.out_of_range = filed.out_of_range
            try:
                IngestBatches(self.stores.ledger).commit_batch(
                    IngestBatch(
                        file_id=source.file_id,
                        epoch=epoch,
                        from_offset=stretch.start,
                        to_offset=stretch.end,
                        head_bytes=head.size_bytes,
                        head_sha256=head.sha256,
                        ingested_at=self.clock(),
                        last_event_time=_latest(batch.events),
                        parts=parts,
                        sessions=filed.new_sessions,
                        counts=batch.counts,
                        names=batch.names,
                    )
                )
                break
            except SessionDateTakenError:
                # Another ingest met one of our sessions a moment earlier: its date counts. With
                # each turn fewer sessions of the batch are new, so this comes to an end.
                continue
        report.counts.add(batch.counts)
        report.dates.update(part.session_date for part in parts if part.session_date)

    def _write_quarantine(
        self, batch: EventBatch, source: SourceFile, stretch: ByteRange, name: str
    ) -> tuple[NewPart, ...]:
        if not batch.quarantined:
            return ()
        rows = [
            (
                source.file_id,
                source.path,
                each.offset,
                each.length_bytes,
                each.record_index,
                each.reason,
                each.first_bytes,
                self.clock(),
            )
            for each in batch.quarantined
        ]
        frame = pl.DataFrame(rows, schema=QUARANTINE.schema, orient="row")
        path, size_bytes = self.stores.lake.write_part(frame, QUARANTINE, None, name)
        return (NewPart(QUARANTINE.name, None, path, frame.height, size_bytes),)


def _latest(events: pl.DataFrame) -> datetime | None:
    latest = events["event_time"].max()
    return latest if isinstance(latest, datetime) else None
