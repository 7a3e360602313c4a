"""Reading quarantined lines again, after the program or a setting was mended.

Only those lines are read. What can be read now is stored, in one transaction with the note that
it was: a second retry, or one that was killed, stores nothing twice.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.lease_owner import is_gone, new_owner
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import LinePlace, lines_again
from evaluation_pipelines.telemetry.ledger.errors import SessionDateTakenError
from evaluation_pipelines.telemetry.ledger.quarantine_retries import QuarantineRetries, RetriedLines
from evaluation_pipelines.telemetry.ledger.records import NewPart, SourceFile
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines.telemetry.quarantine.entries import QuarantineEntry, all_entries, entries
from evaluation_pipelines.telemetry.quarantine.retried_line import RetriedLine, read_again
from evaluation_pipelines.telemetry.reading import open_documents
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, write_events
from evaluation_pipelines.telemetry.unread_files import is_same

_LINES_AT_ONCE = 500

GONE = "the file is no longer in the landing folder"
REPLACED = "the file was emptied or replaced since"
CHANGED = "the file holds something else at this place now"
BUSY = "another process is reading the file: try again when it is done"


@dataclass(slots=True)
class RetryReport:
    """What one retry did.

    Attributes:
        resolved: Entries that could be read now.
        events: Events that were stored for them.
        dates: Dates that got new events.
        left: Entries that stay, each with the reason.
    """

    resolved: int = 0
    events: int = 0
    dates: set[date] = field(default_factory=set)
    left: list[tuple[QuarantineEntry, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Retry:
    """Reads entries of the quarantine again; ``clock`` gives the time."""

    stores: Stores
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self, chosen: Callable[[QuarantineEntry], bool] = lambda _entry: True) -> RetryReport:
        """Read all entries again that are not resolved and that ``chosen`` picks.

        Raises:
            LakeError: a part cannot be written. What was committed before stays.
            LeaseLostError: another process took over a file, since this one was halted for long.
            LedgerError: the ledger cannot be used.
        """
        report = RetryReport()
        files, _ = self.stores.landing.list_files()
        present = {(each.device, each.inode): each for each in files}
        frame = all_entries(self.stores).filter(~pl.col("resolved"))
        for (file_id,), rows in frame.group_by("file_id", maintain_order=True):
            wanted = list(filter(chosen, entries(rows)))
            if not wanted:
                continue
            source = SourceFiles(self.stores.ledger).get(str(file_id))
            file = present.get((source.device, source.inode))
            if file is None:
                report.left += [(each, GONE) for each in wanted]
            else:
                self._retry_file(file, source, wanted, report)
        return report

    def _retry_file(
        self,
        file: LandingFile,
        source: SourceFile,
        wanted: list[QuarantineEntry],
        report: RetryReport,
    ) -> None:
        owner = new_owner()
        with self._lease(source, owner) as epoch:
            if epoch is None:
                report.left += [(each, BUSY) for each in wanted]
                return
            wanted = self._still_open(wanted)
            try:
                self._retry_lines(file, source.file_id, epoch, wanted, report)
            except FileNotFoundError:
                report.left += [(each, GONE) for each in wanted]

    def _retry_lines(
        self,
        file: LandingFile,
        file_id: str,
        epoch: int,
        wanted: list[QuarantineEntry],
        report: RetryReport,
    ) -> None:
        files, seconds = SourceFiles(self.stores.ledger), self.stores.settings.lease_seconds
        with self.stores.landing.open(file) as handle:
            source = files.get(file_id)
            if not is_same(handle, source):
                report.left += [(each, REPLACED) for each in wanted]
                return
            for lines in self._read(handle, file, wanted, report):
                self._store(file_id, epoch, lines, report)
                files.renew_lease(file_id, str(source.lease_owner), epoch, seconds, self.clock())

    @contextmanager
    def _lease(self, source: SourceFile, owner: str) -> Iterator[int | None]:
        """Keep ingests and other retries away from a file; None when one is at work there."""
        files = SourceFiles(self.stores.ledger)
        if source.lease_owner is not None and is_gone(source.lease_owner):
            files.release_lease(source.file_id, source.lease_owner, source.lease_epoch)
        seconds = self.stores.settings.lease_seconds
        epoch = files.acquire_lease(source.file_id, owner, seconds, self.clock())
        try:
            yield epoch
        finally:
            if epoch is not None:
                files.release_lease(source.file_id, owner, epoch)

    def _still_open(self, wanted: list[QuarantineEntry]) -> list[QuarantineEntry]:
        """Without those that another retry resolved before this one had the lease."""
        resolved = {
            (each.file_id, each.offset, each.record_index)
            for each in QuarantineRetries(self.stores.ledger).retried()
            if each.reason is None
        }
        return [
            each
            for each in wanted
            if (each.file_id, each.offset, each.record_index) not in resolved
        ]

    def _read(
        self,
        handle: BinaryIO,
        file: LandingFile,
        wanted: list[QuarantineEntry],
        report: RetryReport,
    ) -> Iterator[list[RetriedLine]]:
        """Lines read again, in batches; entries whose line is not there any more are left."""
        settings = self.stores.settings
        by_line = [list(group) for _, group in groupby(wanted, lambda each: each.offset)]
        places = [
            LinePlace(first.offset, first.length_bytes, first.first_bytes) for first, *_ in by_line
        ]
        documents = open_documents(handle, file.path, settings)
        batch: list[RetriedLine] = []
        size_bytes = 0
        for of_line, raw in zip(by_line, lines_again(documents, places), strict=True):
            if raw is None:
                report.left += [(each, CHANGED) for each in of_line]
                continue
            batch.append(read_again(of_line, raw, settings, self.clock(), documents.form))
            size_bytes += len(raw.text)
            if len(batch) >= _LINES_AT_ONCE or size_bytes >= settings.batch_bytes:
                yield batch
                batch, size_bytes = [], 0
        if batch:
            yield batch

    def _store(
        self, file_id: str, epoch: int, lines: list[RetriedLine], report: RetryReport
    ) -> None:
        """Write the parts of some lines, then commit them."""
        name = f"{file_id}-retry-{lines[0].offset}-{lines[-1].offset}.{epoch}"
        events = pl.concat([each.events for each in lines])
        quarantined = self._write_quarantine(lines, name)
        retried = RetriedLines(
            file_id=file_id,
            epoch=epoch,
            retried_at=self.clock(),
            verdicts=tuple(verdict for each in lines for verdict in each.verdicts),
            gained=tuple((each.offset, each.gained) for each in lines),
            names=_added_up(lines),
        )
        while True:
            filed = assign_session_dates(
                events, self.stores.ledger, self.stores.settings.start_date
            )
            parts = (*write_events(self.stores.lake, filed.events, name), *quarantined)
            lines[0].gained.out_of_range = filed.out_of_range
            stored = replace(retried, parts=parts, sessions=filed.new_sessions)
            try:
                QuarantineRetries(self.stores.ledger).commit_retry(stored)
                break
            except SessionDateTakenError:
                continue  # an ingest met one of the sessions a moment earlier: its date counts
        report.resolved += sum(len(each.resolved) for each in lines)
        report.left += [left for each in lines for left in each.left]
        report.events += events.height
        report.dates.update(part.session_date for part in parts if part.session_date)

    def _write_quarantine(self, lines: list[RetriedLine], name: str) -> tuple[NewPart, ...]:
        """Records that are broken in lines that could not be read at all before."""
        frame = pl.concat([each.newly_quarantined for each in lines])
        if frame.is_empty():
            return ()
        path, size_bytes = self.stores.lake.write_part(frame, QUARANTINE, None, name)
        return (NewPart(QUARANTINE.name, None, path, frame.height, size_bytes),)


def _added_up(lines: Iterable[RetriedLine]) -> dict[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for each in lines:
        for name, records in each.names.items():
            total[name] = total.get(name, 0) + records
    return total
