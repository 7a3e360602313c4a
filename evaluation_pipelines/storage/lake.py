"""The lake: Parquet files, one folder per table, one subfolder per ``session_date``.

A file is written under ``_tmp``, synced and renamed into place, so readers see the old file or the
new one, never half of one. Readers do not list ``_tmp``.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from io import BytesIO
from pathlib import Path

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.parts import NewPart, Part

_STAGING = "_tmp"
_LOCKS = "_locks"


class LakeError(UserError):
    """A table cannot be written or read; the message has the file and what to do."""


class DamagedPartError(LakeError):
    """The file of a part is missing, or is not the one that was written."""


class Lake:
    """Reader and writer of the Parquet files under ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._being_written: set[Path] = set()

    @property
    def staging(self) -> Path:
        """Folder of files that are being written."""
        return self.root / _STAGING

    @property
    def locks(self) -> Path:
        """Folder of lock files."""
        return self.root / _LOCKS

    def partition(self, table: Table, session_date: date | None) -> Path:
        """Return the path of a partition with one file, or of a table without partitions."""
        return self.folder(table, session_date) / f"{table.name}.parquet"

    def folder(self, table: Table, session_date: date | None) -> Path:
        """Return the folder of a partition, or of a table without partitions."""
        folder = self.root / table.name
        return folder if session_date is None else folder / f"session_date={session_date}"

    def files(self, table: Table, session_date: date | None = None) -> list[Path]:
        """Return the files of one partition or of all, the oldest date first."""
        folder = "*" if session_date is None else session_date
        return sorted((self.root / table.name).glob(f"session_date={folder}/{file_name(table)}"))

    def place(self, table: Table, session_date: date) -> Path:
        """Return the path of a partition to show to users: its file, or its folder if several."""
        if table.several_files:
            return self.folder(table, session_date)
        return self.partition(table, session_date)

    def partitions(self, table: Table) -> list[date]:
        """Return the dates for which the table was written, oldest first."""
        names = dict.fromkeys(path.parent.name for path in self.files(table))
        return [date.fromisoformat(name.partition("=")[2]) for name in names]

    def write(self, frame: pl.DataFrame, table: Table, session_date: date | None) -> Path:
        """Replace one partition, or a table without partitions.

        Raises:
            LakeError: ``frame`` does not fit the table, or it cannot be written.
        """
        path = self.partition(table, session_date)
        self._write(frame, table, path)
        return path

    def write_part(
        self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
    ) -> NewPart:
        """Write one of several files of a partition; it counts once the manifest names it."""
        path = self.folder(table, session_date) / f"{name}.parquet"
        size_bytes, sha256 = self._write(frame, table, path)
        in_lake = path.relative_to(self.root).as_posix()
        return NewPart(table.name, session_date, in_lake, frame.height, size_bytes, sha256)

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
            LakeError: a file cannot be read.
        """
        paths = [path for each in dates for path in self.files(table, each)]
        advice = "Delete the file and build its date again."
        conditions = () if where is None else (where,)
        frames = [_read(path, path, table, columns, advice, conditions) for path in paths]
        return pl.concat([table.schema.to_frame().select(columns or pl.all()), *frames])

    def select(self, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        """Return the rows of all partitions that meet every condition.

        Raises:
            LakeError: a file cannot be read.
        """
        advice = "Delete the file and build its date again."
        frames = [_read(path, path, table, None, advice, conditions) for path in self.files(table)]
        return pl.concat([table.schema.to_frame(), *frames])

    def write_whole(self, frame: pl.DataFrame, table: Table) -> Path:
        """Replace a table without partitions; raises LakeError like ``write``."""
        path = self.folder(table, None) / file_name(table)
        self._write(frame, table, path)
        return path

    def read_whole(self, table: Table) -> pl.DataFrame:
        """Read a table without partitions; empty if it was never written.

        Raises:
            LakeError: its file cannot be read.
        """
        path = self.partition(table, None)
        if not path.exists():
            return table.schema.to_frame()
        return _read(path, path, table, None, "Delete the file: the next run makes it again.")

    def read_part(
        self, part: NewPart | Part, table: Table, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Read a part after its content was compared with its checksum.

        Raises:
            DamagedPartError: The file is missing, or its content has changed.
            LakeError: The file cannot be read.
        """
        advice = "Nothing makes it again: restore it from a backup."
        path = self.root / part.path
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedPartError(f"{path} is missing. {advice}") from error
        except OSError as error:
            raise LakeError(f"cannot read {path}: {error}. {advice}") from error
        if part.sha256 is not None and _sha256(content) != part.sha256:
            raise DamagedPartError(
                f"{path} is damaged: its content does not have the checksum in the ledger. {advice}"
            )
        return _read(BytesIO(content), path, table, columns, advice)

    def sweep(
        self, table: Table, session_date: date | None, known_paths: Iterable[str], before: datetime
    ) -> int:
        """Delete what crashes left: parts that no manifest names, and staged files.

        Only files last changed before ``before`` are deleted: a newer one may still be in use.
        Files that this lake is writing are never deleted.

        Returns:
            The number of parts deleted.
        """
        known = {self.root / path for path in known_paths}
        parts = set(self.folder(table, session_date).glob("*.parquet")) - known
        orphans = [path for path in parts if _changed_before(path, before)]
        staged = set(self.staging.glob("*.parquet")) - self._being_written
        for path in (*orphans, *(path for path in staged if _changed_before(path, before))):
            path.unlink(missing_ok=True)
        return len(orphans)

    def _write(self, frame: pl.DataFrame, table: Table, path: Path) -> tuple[int, str]:
        """Write a file under its name, all at once; return its size in bytes and its SHA-256."""
        if frame.schema != table.schema:
            raise LakeError(f"{table.name}: {_difference(frame.schema, table.schema)}")
        staged = self.staging / f"{uuid.uuid4().hex}.parquet"
        self._being_written.add(staged)
        try:
            staged.parent.mkdir(parents=True, exist_ok=True)
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _flush(path.parent.parent)  # the new folder, too, survives a power cut
            frame.write_parquet(staged, compression="zstd", compression_level=1)
            _flush(staged)
            content = staged.read_bytes()
            staged.replace(path)
            _flush(path.parent)
        except (OSError, pl.exceptions.ComputeError) as error:
            with suppress(OSError):  # the folder itself may be the problem
                staged.unlink(missing_ok=True)
            raise LakeError(f"cannot write {path}: {error}. {_space(self.root)}") from error
        finally:
            self._being_written.discard(staged)
        return len(content), _sha256(content)


def file_name(table: Table) -> str:
    """Return the file name in a partition; a pattern if there are several."""
    return "*.parquet" if table.several_files else f"{table.name}.parquet"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(
    source: Path | BytesIO,
    path: Path,
    table: Table,
    columns: Sequence[str] | None,
    advice: str,
    conditions: Sequence[pl.Expr] = (),
) -> pl.DataFrame:
    """Read one file of a table as its schema says; missing columns are null."""
    try:
        rows = pl.scan_parquet(source, schema=table.schema, missing_columns="insert", glob=False)
        return rows.filter(*conditions).select(columns or pl.all()).collect()
    # A panic of the native reader is no Exception, and its message does not name the file.
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise LakeError(f"cannot read {path}: {error}. {advice}") from error


def _changed_before(path: Path, time: datetime) -> bool:
    try:
        return path.stat().st_mtime < time.timestamp()
    except FileNotFoundError:  # renamed or deleted by another process
        return False


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _difference(given: pl.Schema, wanted: pl.Schema) -> str:
    wrong = [
        f"{name} is {given.get(name, 'missing')}, not {wanted.get(name, 'a column')}"
        for name in {**wanted, **given}
        if given.get(name) != wanted.get(name)
    ]
    return "; ".join(wrong) or "the columns are in another order"


def _space(root: Path) -> str:
    free = shutil.disk_usage(root if root.exists() else Path.cwd()).free
    return f"The disk has {free // 2**20} MiB free; check space and permissions, then run again."
