"""The lake: immutable Parquet files, one folder per table, one subfolder per ``session_date``.

A file is written all at once, under a name that was never used before. It counts from the moment
the manifest in the ledger names it, and until the manifest names another one in its place. Readers
take the list of files from the manifest, never from the folder.

The lake has a note of its ledger. Files that the ledger does not name were left by crashes and are
deleted; to a second ledger over the same lake, or to a new one after the first was lost, all files
look like that.
"""

import hashlib
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Self, cast

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest, Version
from evaluation_pipelines.storage.ledger.tables.telemetry import LEDGER_IDS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import ALL_BUCKETS, BUCKET, NewPart, Shard, what_to_do
from evaluation_pipelines.storage.store import LinkError, Store, StoredFiles, StoreError, older_than

_NO_PARTS: Version = (0, 0, 0)
_LANDED_GROUP_ROWS = 32_768
"""Rows of landed parts that are read together: a shard needs few of a large part."""

_READ_TOGETHER_BYTES = 8 * 1024 * 1024
"""Parquet that is read by one statement."""

_OF_DATE = "session_date="


def date_of(path: str) -> date | None:
    """Return the session date of a file by its path in the lake; ``None`` without one."""
    found = re.search(rf"/{_OF_DATE}([\d-]+)/", path)
    return date.fromisoformat(found[1]) if found else None


class LakeError(UserError):
    """A table cannot be written or read; the message has the file and what to do."""


class DamagedPartError(LakeError):
    """The file of a part is missing, or is not the one that was written."""


class Lake:
    """Reader and writer of the Parquet files of a store that the manifest names.

    Without a manifest, nothing was ever written: the lake is empty and read-only. ``shard`` has the
    buckets of the sessions whose rows it reads and writes; see ``of``.
    """

    shard: Shard = ALL_BUCKETS

    def __init__(self, store: Store, manifest: Manifest | None) -> None:
        self.store = store
        self._manifest = manifest
        self._noted_in = manifest

    def of(self, shard: Shard) -> Self:
        """Return the same lake with the sessions of a shard only."""
        part_of_lake = copy(self)
        part_of_lake.shard = shard
        return part_of_lake

    def snapshot(self) -> "Lake":
        """Return the lake as it is now, for reading: a switch to new parts does not change it."""
        return SnapshotLake(self.store, self._manifest)

    def version(self) -> Version:
        """Return what tells the current parts of all tables from those of another moment."""
        return _NO_PARTS if self._manifest is None else self._manifest.version()

    def where(self, path: str = "") -> str:
        """Return the full name of a file or folder of the lake, to show to users."""
        return self.store.where(path)

    def folder(self, table: Table, session_date: date | None) -> str:
        """Return the path of a partition in the lake, or of a table without partitions."""
        return table.name if session_date is None else f"{table.name}/{_OF_DATE}{session_date}"

    def folder_name(self, table: Table) -> str:
        """Return the full name of the folder of a table, to show to users."""
        return self.where(table.name)

    def parts(self, table: Table, dates: Iterable[date | None] | None = None) -> list[NewPart]:
        """Return the current parts of some partitions (None: without date), or of all.

        They are in the order of the dates; to read one whose file was deleted is an error.
        """
        place = None if dates is None else {day: index for index, day in enumerate(dates)}
        found = self._current(table, place)
        return sorted(
            (part for part in found if self.shard.overlaps(part.first_bucket, part.last_bucket)),
            key=lambda part: (
                part.session_date or date.min if place is None else place[part.session_date],
                part.slot or "",
                part.first_bucket if part.slot else 0,
            ),
        )

    def _current(self, table: Table, dates: Collection[date | None] | None) -> list[NewPart]:
        if self._manifest is None or (dates is not None and not dates):
            return []
        if dates is not None and len(dates) == 1:
            return list(self._manifest.current(table.name, *dates))
        found = self._manifest.all_current(table.name)
        return [part for part in found if dates is None or part.session_date in dates]

    def files(self, table: Table, dates: Iterable[date | None] | None = None) -> StoredFiles:
        """Return the files of ``parts`` after their content was verified.

        They may have rows of other shards as well.

        Raises:
            DamagedPartError: A file is missing, or its content has changed.
        """
        found = self.parts(table, dates)
        for part in found:
            self.verify(part)
        return StoredFiles(self.store, [part.path for part in found])

    def place(self, table: Table, session_date: date | None) -> str:
        """Return the name of a partition to show to users: its file, or its folder if several."""
        parts = self.parts(table, [session_date])
        path = parts[0].path if len(parts) == 1 else self.folder(table, session_date)
        return self.where(path)

    def partitions(self, table: Table) -> list[date]:
        """Return the dates for which the table was written, oldest first."""
        return sorted({part.session_date for part in self.parts(table) if part.session_date})

    def write(
        self,
        frame: pl.DataFrame,
        table: Table,
        session_date: date | None,
        hold: Hold | None = None,
    ) -> str:
        """Replace one partition, or a table without partitions; return the name of its file.

        ``hold`` has the locks under which it is made.

        Raises:
            LockLostError: The locks are lost; nothing has changed.
            LakeError: ``frame`` does not fit the table, or it cannot be written.
        """
        return self.write_slot(frame, table, session_date, table.name, hold)

    def write_slot(
        self,
        frame: pl.DataFrame,
        table: Table,
        session_date: date | None,
        slot: str,
        hold: Hold | None = None,
    ) -> str:
        """Replace one of several files of a partition; raises as ``write``."""
        part = self.stage(frame, table, session_date, slot)
        self.switch([part], hold)
        return self.where(part.path)

    def stage(
        self, frame: pl.DataFrame, table: Table, session_date: date | None, slot: str
    ) -> NewPart:
        """Write a file that will take the place of a slot once ``switch`` is called."""
        name = f"{slot}-{uuid.uuid4().hex[:12]}"
        part = self.write_part(frame, table, session_date, name)
        shard = self.shard
        return replace(part, slot=slot, first_bucket=shard.first, last_bucket=shard.last)

    def switch(self, parts: Collection[NewPart], hold: Hold | None = None) -> None:
        """Make staged parts the current ones, all of them in one transaction."""
        if self._manifest is None:
            raise LakeError(f"{self.where()} was opened for reading only.")
        self._manifest.switch(parts, datetime.now(UTC), hold)

    def write_part(
        self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
    ) -> NewPart:
        """Write a file under a fresh name; it counts once the manifest names it."""
        path = f"{self.folder(table, session_date)}/{name}.parquet"
        size_bytes, sha256 = self._write(frame, table, path)
        part = NewPart(table.name, session_date, path, frame.height, size_bytes, sha256)
        if BUCKET not in frame.columns or frame.is_empty():
            return part
        buckets = frame[BUCKET]
        return replace(
            part, first_bucket=cast(int, buckets.min()), last_bucket=cast(int, buckets.max())
        )

    def read(
        self,
        table: Table,
        dates: Iterable[date],
        columns: Sequence[str] | None = None,
        where: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """Read the partitions of ``dates`` that exist, in that order.

        Returns only ``columns``, if given, and only rows that meet ``where``.

        Raises:
            DamagedPartError: A file is missing, or its content has changed.
            LakeError: a file cannot be read.
        """
        conditions = () if where is None else (where,)
        return self._read_parts(self.parts(table, dates), table, columns, conditions)

    def select(self, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        """Return the rows of all partitions that meet every condition; raises as ``read``."""
        return self._read_parts(self.parts(table), table, None, conditions)

    def write_whole(self, frame: pl.DataFrame, table: Table) -> str:
        """Replace a table without partitions; raises LakeError like ``write``."""
        return self.write(frame, table, None)

    def read_whole(self, table: Table) -> pl.DataFrame:
        """Read a table without partitions; empty if it was never written. Raises as ``read``."""
        return self._read_parts(self.parts(table, [None]), table, None)

    def read_part(
        self, part: NewPart, table: Table, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Read one part; raises as ``read``."""
        return self._read(part, table, columns)

    def _read_parts(
        self,
        parts: Sequence[NewPart],
        table: Table,
        columns: Sequence[str] | None,
        conditions: Sequence[pl.Expr] = (),
    ) -> pl.DataFrame:
        """Read parts in their order, small ones of this shard alone by one statement."""
        frames = [table.no_rows.select(columns or pl.all())]
        for group in self._groups(parts):
            frames += self._read_group(group, table, columns, conditions)
        return pl.concat(frames)

    def _groups(self, parts: Sequence[NewPart]) -> Iterator[list[NewPart]]:
        """Yield the parts in groups of a limited size: all their bytes are in memory."""
        group: list[NewPart] = []
        for part in parts:
            size_bytes = sum(member.size_bytes for member in (*group, part))
            if group and size_bytes > _READ_TOGETHER_BYTES:
                yield group
                group = []
            group.append(part)
        if group:
            yield group

    def _read_group(
        self,
        parts: Sequence[NewPart],
        table: Table,
        columns: Sequence[str] | None,
        conditions: Sequence[pl.Expr],
    ) -> list[pl.DataFrame]:
        of_shard = all(self.shard.contains(part.first_bucket, part.last_bucket) for part in parts)
        if len(parts) > 1 and of_shard:
            sources = [self.content(part) for part in parts]
            # A panic of the reader is no Exception. Read alone, a file is named by its error.
            with suppress(OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
                rows = _scanned(sources, table).filter(*conditions)
                return [rows.select(columns or pl.all()).collect()]
        return [self._read(part, table, columns, conditions) for part in parts]

    def _read(
        self,
        part: NewPart,
        table: Table,
        columns: Sequence[str] | None,
        conditions: Sequence[pl.Expr] = (),
    ) -> pl.DataFrame:
        source = self.content(part)
        try:
            found = _scanned([source], table).filter(*conditions)
            if self.shard.contains(part.first_bucket, part.last_bucket):
                return found.select(columns or pl.all()).collect()
            if BUCKET in table.schema:
                of_shard = pl.col(BUCKET).is_between(self.shard.first, self.shard.last)
                return found.filter(of_shard).select(columns or pl.all()).collect()
            needed = None if columns is None else {"session_id", *columns}
            with_id = found.select(needed or pl.all()).collect()
            return self.shard.rows_of(with_id).select(columns or pl.all())
        # A panic of the native reader is no Exception, and its message does not name the file.
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            name = self.where(part.path)
            raise LakeError(f"cannot read {name}: {error}. {what_to_do(part)}") from error

    def verify(self, part: NewPart) -> None:
        """Compare the content of a part with its checksum.

        Raises:
            DamagedPartError: The file is missing, or its content has changed.
            LakeError: It cannot be read.
        """
        self.content(part)

    def content(self, part: NewPart) -> bytes:
        """Return the content of a part after it was compared with its checksum; see ``verify``."""
        name = self.where(part.path)
        try:
            content = self.store.get(part.path)
        except FileNotFoundError as error:
            raise self._damaged(part, "is missing") from error
        except StoreError as error:  # nothing is wrong with the part
            raise LakeError(f"cannot read {error}") from error
        except OSError as error:
            raise LakeError(f"cannot read {name}: {error}. {what_to_do(part)}") from error
        if _sha256(content) != part.sha256:
            what = "is damaged: its content does not have the checksum in the ledger"
            raise self._damaged(part, what)
        return content

    def _damaged(self, part: NewPart, what: str) -> DamagedPartError:
        """Return the error of a part, after it was noted for ``status``."""
        error = DamagedPartError(f"{self.where(part.path)} {what}. {what_to_do(part)}")
        if self._noted_in is not None:
            with suppress(LedgerError):  # of two errors, this one matters
                self._noted_in.note_damage(part, f"{type(error).__name__}: {error}")
        return error

    def sweep(
        self,
        table: Table,
        session_date: date | None,
        known_paths: Iterable[str],
        before: datetime,
        grace: timedelta = timedelta(),
    ) -> int:
        """Delete what crashes left: parts that no manifest names, and staged files.

        Only files last changed before ``before`` are deleted, and none whose last change is less
        than ``grace`` ago by the clock of the store.

        Returns:
            The number of parts deleted.
        """
        known = set(known_paths)
        folder = self.folder(table, session_date)
        unknown = [
            file
            for file in self.store.list(f"{folder}/")
            if file.path not in known
            # A table without partitions has its files in the folder of all dates of others.
            and file.path.rpartition("/")[0] == folder
        ]
        orphans = older_than(self.store, unknown, before, grace)
        for file in orphans:
            self.store.delete(file.path)
        self.store.delete_staged(before, grace)
        return len(orphans)

    def _write(self, frame: pl.DataFrame, table: Table, path: str) -> tuple[int, str]:
        """Write a file all at once; return its size in bytes and its SHA-256."""
        if frame.schema != table.schema:
            raise LakeError(f"{table.name}: {_difference(frame.schema, table.schema)}")
        content = BytesIO()
        rows = _LANDED_GROUP_ROWS if BUCKET in table.schema else None
        frame.write_parquet(content, compression="zstd", compression_level=1, row_group_size=rows)
        written = content.getbuffer()
        try:
            self.store.put(path, written, shared=not table.has_texts)
        except StoreError as error:
            raise LakeError(f"cannot write {error}") from error
        except LinkError as error:
            raise LakeError(f"cannot write {self.where(path)}: {error}") from error
        except OSError as error:
            message = f"cannot write {self.where(path)}: {error}. {self.store.advice()}"
            raise LakeError(message) from error
        return len(written), _sha256(written)


class SnapshotLake(Lake):
    """A lake with the parts that were current when it was made, of all tables together."""

    def __init__(self, store: Store, manifest: Manifest | None) -> None:
        super().__init__(store, None)
        self._noted_in = manifest
        self._parts = [] if manifest is None else manifest.all_tables()

    def version(self) -> Version:
        """Return the version of the parts that it has."""
        ids = [part.part_id for part in self._parts]
        return len(ids), sum(ids), max(ids, default=0)

    def _current(self, table: Table, dates: Collection[date | None] | None) -> list[NewPart]:
        return [
            part
            for part in self._parts
            if part.table_name == table.name and (dates is None or part.session_date in dates)
        ]


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def _scanned(files: list[bytes], table: Table) -> pl.LazyFrame:
    """Return the rows of files as the schema of their table says; missing columns are null.

    Columns that the table has dropped since are left out.
    """
    return pl.scan_parquet(
        files,
        schema=table.schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
    )


def _difference(given: pl.Schema, wanted: pl.Schema) -> str:
    """Return the columns that differ, in words."""
    wrong = [
        f"{name} is {given.get(name, 'missing')}, not {wanted.get(name, 'a column')}"
        for name in {**wanted, **given}
        if given.get(name) != wanted.get(name)
    ]
    return "; ".join(wrong) or "the columns are in another order"


_NOTE = "_ledger"


class OtherLedgerError(LakeError):
    """The lake belongs to another ledger."""


def check_lake_ledger(lake: Lake, ledger: Ledger, *, note: bool) -> None:
    """Refuse a lake of another ledger; with ``note`` a lake of none is noted as this one's.

    Raises:
        OtherLedgerError: The lake belongs to another ledger.
        LakeError: The note cannot be read or written.
    """
    with reading(ledger.engine) as connection:
        ledger_id = connection.execute(sa.select(LEDGER_IDS.c.ledger_id)).scalar_one()
    try:
        owner = _owner(lake) or (_noted(lake, ledger_id) if note else ledger_id)
    except StoreError as error:
        raise LakeError(f"cannot use {error}") from error
    except OSError as error:
        raise LakeError(
            f"{lake.where(_NOTE)}, which names the ledger of the lake, cannot be used: "
            f"{error}. Check space and permissions."
        ) from error
    if owner != ledger_id:
        raise OtherLedgerError(
            f"{lake.where()} belongs to another ledger than {_location(ledger)}. Restore that "
            "ledger, or set EVAL_LEDGER_URL to it. If it is lost, move the lake away and run "
            "ingest: what the landing folder still has is read again."
        )


def _owner(lake: Lake) -> str | None:
    try:
        return lake.store.get(_NOTE).decode(errors="replace")
    except FileNotFoundError:
        return None


def _noted(lake: Lake, ledger_id: str) -> str | None:
    try:
        lake.store.put(_NOTE, ledger_id.encode(), shared=False)
    except FileExistsError:  # another process was faster
        return _owner(lake)
    return ledger_id


def _location(ledger: Ledger) -> str:
    return ledger.engine.url.render_as_string(hide_password=True)
