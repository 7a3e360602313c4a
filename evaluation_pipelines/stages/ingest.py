"""Ingest: from the landing folder to landed parts, every byte once.

A batch is a stretch of complete lines of one file. Its parts are written and renamed first, then
one transaction of the ledger moves the file's position and names the parts. A kill before that
transaction leaves orphans that nobody reads; a kill after it leaves nothing to do.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.adapters.landing import (
    LandingFile,
    PassedOver,
    first_time_ns,
    read_documents,
    read_head,
)
from evaluation_pipelines.adapters.ledger.errors import (
    LeaseLostError,
    PositionMovedError,
    SessionDateTakenError,
)
from evaluation_pipelines.adapters.ledger.records import IngestBatch, NewPart, SourceFile
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED, QUARANTINE
from evaluation_pipelines.domain.telemetry.counts import IngestCounts
from evaluation_pipelines.domain.telemetry.reader import EventBatch
from evaluation_pipelines.stages.filing import file_events
from evaluation_pipelines.stages.progress import Progress, Silent
from evaluation_pipelines.stages.reading import event_reader, read_line
from evaluation_pipelines.stages.stores import Stores


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
    passed_over: list[PassedOver] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ingest:
    """Reads everything new in the landing folder into the lake.

    ``clock`` gives the time; tests give it another.
    """

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, progress: Progress | None = None) -> IngestReport:
        """Ingest all files, the oldest telemetry first.

        Raises:
            LakeError: a part cannot be written. What was committed before stays.
            LedgerError: the ledger cannot be used.
        """
        progress = progress or Silent()
        files, passed_over = self.stores.landing.list_files()
        report = IngestReport(passed_over=passed_over)
        due = sorted(self._due(files, report), key=lambda each: each[0])
        progress.begin("reading telemetry", sum(f.size_bytes - s.position for _, f, s in due))
        for _, file, source in due:
            self._ingest_file(file, source, report, progress)
        return report

    def _due(
        self, files: list[LandingFile], report: IngestReport
    ) -> Iterator[tuple[int, LandingFile, SourceFile]]:
        """Files with unread bytes, with the time near their beginning and what is known of them."""
        newest: dict[tuple[int, int], SourceFile] = {}
        generations: dict[tuple[int, int], int] = {}
        for source in self.stores.ledger.files.all():
            identity = (source.device, source.inode)
            newest[identity] = source
            generations[identity] = generations.get(identity, 0) + 1
        for file in files:
            if file.size_bytes == 0:
                continue
            identity = (file.device, file.inode)
            try:
                with self.stores.landing.open(file) as handle:
                    known = newest.get(identity)
                    if known is not None and _is_same(file, handle, known):
                        source = known
                    else:
                        source = self._add(file, handle, generations.get(identity, 0))
                    if source.position < file.size_bytes:
                        yield first_time_ns(handle) or file.modified_at_ns, file, source
            except OSError as error:
                report.passed_over.append(PassedOver(file.path, f"cannot be read: {error}"))

    def _add(self, file: LandingFile, handle: BinaryIO, generation: int) -> SourceFile:
        head = read_head(handle)
        file_id = f"{file.device:x}-{file.inode:x}-{generation}"
        source = SourceFile(
            file_id=file_id,
            device=file.device,
            inode=file.inode,
            head_bytes=head.size_bytes,
            head_sha256=head.sha256,
            path=file.path,
            size_bytes=file.size_bytes,
            first_seen_at=self.clock(),
        )
        self.stores.ledger.files.add(source)
        return self.stores.ledger.files.get(file_id)

    def _ingest_file(
        self, file: LandingFile, source: SourceFile, report: IngestReport, progress: Progress
    ) -> None:
        files, owner = (
            self.stores.ledger.files,
            f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}",
        )
        if (source.path, source.size_bytes) != (file.path, file.size_bytes):
            files.seen(source.file_id, file.path, file.size_bytes)
        seconds = self.stores.settings.lease_seconds
        epoch = files.acquire_lease(source.file_id, owner, seconds, self.clock())
        if epoch is None:
            report.busy.append(file.path)
            return
        try:
            with self.stores.landing.open(file) as handle:
                position = files.get(source.file_id).position
                for batch, stretch in self._batches(handle, file, source.file_id, position):
                    self._land(batch, stretch, file, handle, epoch, report)
                    files.renew_lease(source.file_id, owner, epoch, seconds, self.clock())
                    progress.advance(stretch.end - stretch.start)
                    report.files += stretch.start == position
        except OSError as error:
            report.passed_over.append(PassedOver(file.path, f"cannot be read: {error}"))
        except (LeaseLostError, PositionMovedError):
            report.busy.append(file.path)
        finally:
            files.release_lease(source.file_id, owner, epoch)

    def _batches(
        self, handle: BinaryIO, file: LandingFile, file_id: str, position: int
    ) -> Iterator[tuple[EventBatch, "_Stretch"]]:
        """Decode complete lines into batches of about ``batch_bytes``."""
        reader = event_reader(self.stores.settings, self.clock())
        start = end = position
        limit = self.stores.settings.max_line_bytes
        for line in read_documents(handle, file.path, position, limit):
            read_line(reader, line, file_id, limit)
            end = line.next_offset
            if end - start >= self.stores.settings.batch_bytes:
                yield reader.take(end - start), _Stretch(file_id, start, end)
                start = end
        if end > start:
            yield reader.take(end - start), _Stretch(file_id, start, end)

    def _land(
        self,
        batch: EventBatch,
        stretch: "_Stretch",
        file: LandingFile,
        handle: BinaryIO,
        epoch: int,
        report: IngestReport,
    ) -> None:
        """Write the parts of a batch, then commit it."""
        name = f"{stretch.file_id}-{stretch.start}-{stretch.end}.{epoch}"
        quarantined = self._write_quarantine(batch, file, stretch, name)
        # The handle reads ahead of a writer that appends: only consumed bytes identify the file.
        head = read_head(handle, stretch.end)
        for attempt in range(3):
            filed = file_events(batch.events, self.stores.ledger, self.stores.settings.start_date)
            parts = (*self._write_events(filed.events, name), *quarantined)
            batch.counts.out_of_range = filed.out_of_range
            try:
                self.stores.ledger.ingest.commit_batch(
                    IngestBatch(
                        file_id=stretch.file_id,
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
                # Another ingest met one of our sessions a moment earlier: its date counts.
                if attempt == 2:
                    raise
        report.counts.add(batch.counts)
        report.dates.update(part.session_date for part in parts if part.session_date)

    def _write_events(self, events: pl.DataFrame, name: str) -> Iterator[NewPart]:
        table = AGENT_EVENTS_LANDED
        for part in events.partition_by("session_date", maintain_order=True):
            day: date = part.item(0, "session_date")
            path, size_bytes = self.stores.lake.write_part(part, table, day, name)
            yield NewPart(table.name, day, path, part.height, size_bytes)

    def _write_quarantine(
        self, batch: EventBatch, file: LandingFile, stretch: "_Stretch", name: str
    ) -> tuple[NewPart, ...]:
        if not batch.quarantined:
            return ()
        rows = [
            (
                stretch.file_id,
                file.path,
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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Bytes ``start`` to ``end`` of a file."""

    file_id: str
    start: int
    end: int


def _is_same(file: LandingFile, handle: BinaryIO, source: SourceFile) -> bool:
    """Whether a file is the one the ledger knows: it did not shrink and begins the same."""
    if file.size_bytes < source.position:
        return False
    head = read_head(handle, source.head_bytes)
    return (head.size_bytes, head.sha256) == (source.head_bytes, source.head_sha256)


def _latest(events: pl.DataFrame) -> datetime | None:
    latest = events["event_time"].max()
    return latest if isinstance(latest, datetime) else None
