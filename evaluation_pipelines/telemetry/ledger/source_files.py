"""Files of the landing folder, and how far each is read."""

from collections.abc import Collection, Mapping
from dataclasses import asdict

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import SOURCE_FILES
from evaluation_pipelines.telemetry.ledger.errors import UnknownSourceFileError
from evaluation_pipelines.telemetry.ledger.records import SeenFile, SourceFile

_FILE = SOURCE_FILES.c
_PROGRESS = sa.select(
    sa.func.count(),
    *map(sa.func.sum, (_FILE.position, _FILE.finished_size_bytes, _FILE.size_bytes)),
).select_from(SOURCE_FILES)
"""Asked every few seconds: to make the statement takes longer than the answer."""


class SourceFiles:
    """Operations on ``source_files``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def all(self) -> list[SourceFile]:
        """Return all files, in the order in which they were first seen."""
        query = sa.select(SOURCE_FILES).order_by(_FILE.first_seen_at, _FILE.file_id)
        with reading(self._engine) as connection:
            return [SourceFile(**row) for row in connection.execute(query).mappings()]

    def last_seen(self) -> list[SeenFile]:
        """Return all files as they were last seen; much faster than ``all``."""
        query = sa.select(*(_FILE[name] for name in SeenFile._fields))
        with reading(self._engine) as connection:
            return list(map(SeenFile._make, connection.execute(query).all()))

    def with_inodes(self, inodes: Collection[int]) -> list[SourceFile]:
        """Return the files with these inodes, of any device."""
        query = sa.select(SOURCE_FILES)
        with reading(self._engine) as connection:
            return [
                SourceFile(**row)
                for chunk in chunks(inodes)
                for row in connection.execute(query.where(_FILE.inode.in_(chunk))).mappings()
            ]

    def get(self, file_id: str) -> SourceFile:
        """Return one file.

        Raises:
            UnknownSourceFileError: no such file.
        """
        query = sa.select(SOURCE_FILES).where(_FILE.file_id == file_id)
        with reading(self._engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise _unknown(file_id)
        return SourceFile(**row)

    def progress(self) -> tuple[int, ...]:
        """Return numbers that change whenever any file is read on, and with another ledger."""
        with reading(self._engine) as connection:
            return tuple(int(number or 0) for number in connection.execute(_PROGRESS).one())

    def add(self, file: SourceFile) -> None:
        """Add a file; a known file is unchanged."""
        with writing(self._engine) as connection:
            insert = insert_into(connection, SOURCE_FILES)
            ignore_known = insert.on_conflict_do_nothing(index_elements=[_FILE.file_id])
            connection.execute(ignore_known, asdict(file))

    def update_path(self, file_id: str, path: str, size_bytes: int) -> None:
        """Update path and size of a known file that is going to be read.

        Raises:
            UnknownSourceFileError: no such file.
        """
        values = {"path": path, "size_bytes": size_bytes, "changed_at_ns": None}
        update = sa.update(SOURCE_FILES).where(_FILE.file_id == file_id).values(values)
        with writing(self._engine) as connection:
            if connection.execute(update).rowcount == 0:
                raise _unknown(file_id)

    def note_unchanged(self, seen: Mapping[str, SeenFile]) -> None:
        """Note, by ``file_id``, how files looked when there was nothing of them to read."""
        if not seen:
            return
        update = sa.update(SOURCE_FILES).where(_FILE.file_id == sa.bindparam("of_file"))
        rows = [
            {"of_file": file_id, "size": each.size_bytes, "changed": each.changed_at_ns}
            for file_id, each in seen.items()
        ]
        values: dict[str, sa.BindParameter[int | None]] = {
            "size_bytes": sa.bindparam("size", type_=sa.BigInteger()),
            "changed_at_ns": sa.bindparam("changed", type_=sa.BigInteger()),
        }
        with writing(self._engine) as connection:
            connection.execute(update.values(values), rows)

    def mark_finished(self, file_id: str, size_bytes: int, unfinished: str | None) -> None:
        """Record that a compressed file of this size was read as far as possible.

        ``unfinished`` says what is missing at its end.

        Raises:
            UnknownSourceFileError: no such file.
        """
        update = sa.update(SOURCE_FILES).where(_FILE.file_id == file_id)
        values = {"finished_size_bytes": size_bytes, "unfinished": unfinished}
        with writing(self._engine) as connection:
            if connection.execute(update.values(values)).rowcount == 0:
                raise _unknown(file_id)


def _unknown(file_id: str) -> UnknownSourceFileError:
    return UnknownSourceFileError(
        f"The ledger has no source file {file_id}. Add it before reading it."
    )
