"""Read bytes of landing files again, and with them landed parts that are damaged or missing.

The manifest knows the bytes that each landed part was read from. A part is replaced only if these
bytes give as many rows as it had, so that no event is lost or stored twice.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, TEXT_KEY, Table
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.parts import BUCKET, Part, PartOrigin, buckets_of
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.forgotten_events import ForgottenEvents
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.reading import ByteRange, open_documents, read_byte_range
from evaluation_pipelines.telemetry.session_dates import assign_session_dates, landed_rows
from evaluation_pipelines.telemetry.unread_files import is_same_file, known_identities

GONE = "the file is no longer in the landing folder"
REPLACED = "the file was emptied or replaced since it was read"


class NotRereadError(Exception):
    """Bytes cannot be read again; the message says why."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """An open landing file that was read before."""

    stores: Stores
    handle: BinaryIO
    path: str

    def documents(self) -> Documents:
        """Return its lines."""
        self.handle.seek(0)  # the format is read from where the file is
        return open_documents(self.handle, self.stores.settings)

    def read(self, file_id: str, byte_range: ByteRange, read_at: datetime) -> EventBatch:
        """Return the events of some bytes as of the time when they were read first.

        Raises:
            OSError: The file has become shorter, or cannot be read.
        """
        documents, settings = self.documents(), self.stores.settings
        organization = organization_of(self.path)
        return read_byte_range(documents, file_id, byte_range, settings, read_at, organization)


@contextmanager
def opened_again(
    stores: Stores, source: SourceFile, present: Sequence[LandingFile]
) -> Iterator[ReadFile]:
    """Open a file that was read: by its inode, or by its name if the folder is a copy.

    Args:
        stores: The stores.
        source: The file in the ledger.
        present: Files of the landing folder.

    Raises:
        NotRereadError: The file is gone, was replaced, or cannot be opened.
    """
    try:
        file = _find(stores, source, present)
        with file.handle:
            yield file
    except FileNotFoundError:  # an object can be missed when it is read
        raise NotRereadError(GONE) from None


def _find(stores: Stores, source: SourceFile, present: Sequence[LandingFile]) -> ReadFile:
    by_inode = [
        file for file in present if (file.device, file.inode) == (source.device, source.inode)
    ]
    by_path = [file for file in present if file.path == source.path]
    why_not = None
    for file in dict.fromkeys([*by_inode, *by_path]):
        try:
            with ExitStack() as stack:
                handle = stack.enter_context(stores.landing.open(file))
                if is_same_file(handle, source):
                    stack.pop_all()
                    return ReadFile(stores, handle, file.path)
            why_not = why_not or REPLACED
        except FileNotFoundError:
            continue
        except OSError as error:
            why_not = error.strerror or str(error)
    raise NotRereadError(why_not or GONE)


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
        rows = pl.concat(
            [table.no_rows, *(self._rows(table, part, origin, present) for origin in origins)]
        )
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
        source = SourceFiles(self.stores.ledger).get(origin.file_id)
        try:
            with opened_again(self.stores, source, present) as file:
                byte_range = ByteRange(origin.from_offset, origin.to_offset)
                batch = file.read(origin.file_id, byte_range, origin.read_at)
        except (NotRereadError, OSError) as error:
            raise NotRereadError(f"{source.path}: {error}") from error
        events = ForgottenEvents(self.stores).leave_out(batch.events).events
        dated = assign_session_dates(events, self.stores.ledger, self.stores.settings.start_date)
        dated_rows = dated.events.filter(pl.col("session_date") == part.session_date)
        rows = landed_rows(dated_rows.with_columns(buckets_of(dated_rows["session_id"])), table)
        rows = self._without_others(table, part, origin, rows)
        if rows.height != origin.row_count:
            raise NotRereadError(
                f"bytes {origin.from_offset} to {origin.to_offset} of {source.path} give "
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
            if other.part_id == part.part_id:
                continue
            starts = {(same.file_id, same.from_offset) for same in manifest.origins(other.part_id)}
            if (origin.file_id, origin.from_offset) in starts:
                present = self.stores.lake.read_part(other, table, key)
                rows = rows.join(present, on=key, how="anti", nulls_equal=True)
        return rows

    def _check_ids(self, table: Table, part: Part, rows: pl.DataFrame) -> None:
        """Check that events and texts of the same lines still belong together.

        Raises:
            NotRereadError: Another version of this program made other ids.
        """
        other = AGENT_EVENTS_LANDED if table is EVENT_TEXTS_LANDED else EVENT_TEXTS_LANDED
        here = rows.select(TEXT_KEY)
        is_of_files = pl.col("source_file_id").is_in(here["source_file_id"].unique().to_list())
        days = filter(None, [part.session_date])
        try:
            there = self.stores.lake.read(other, days, TEXT_KEY, is_of_files)
        except LakeError:  # damaged as well: it is read again after this one, and checked then
            return
        there = there.join(here, on=TEXT_KEY[1:], how="semi")
        texts, events = (here, there) if table is EVENT_TEXTS_LANDED else (there, here)
        if not texts.join(events, on=TEXT_KEY, how="anti").is_empty():
            raise NotRereadError(
                "its events have other ids than before: another version of this program read them"
            )
