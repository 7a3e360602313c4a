"""Faults that no database or file system notices: missing and changed files, changed values."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from itertools import groupby

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import QUARANTINE, TABLES, Table
from evaluation_pipelines.storage.lake import DamagedPartError, Lake, LakeError
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import INGEST_BATCHES
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.stores import Stores

_MOST_REMEMBERED = 100_000
_CHECKED = {table.name for table in TABLES if table is not QUARANTINE}


def find_damage(stores: Stores, *, verifies: bool = False) -> dict[str, str]:
    """Find files that are missing, or changed since they were written.

    It is noted in the ledger as if a reader had met it. Lines in quarantine are for people to read:
    they may delete them when they have.

    Args:
        stores: The stores.
        verifies: Whether to read all files, also those that seem unchanged.

    Returns:
        Path in the lake -> what is wrong, and what to do.

    Raises:
        LakeError: A file cannot be read.
    """
    lake, found = stores.lake, dict[str, str]()
    parts = [part for part in Manifest(stores.ledger).all_tables() if part.table_name in _CHECKED]
    files = {file.path: file.changed_at for file in lake.store.list("")}
    for part in sorted(parts, key=lambda part: part.path):
        changed_at = files.get(part.path)
        is_changed = changed_at is None or changed_at > part.created_at.timestamp()
        try:
            if verifies:
                lake.verify(part)
            elif is_changed:
                _verify(lake, part, changed_at)
        except DamagedPartError as error:
            found[part.path] = str(error)
    return found


@lru_cache(_MOST_REMEMBERED)
def _verify(lake: Lake, part: Part, _changed_at: float | None) -> None:
    """Verify a file; a sound one, as of a copied folder, is not read again until it changes."""
    lake.verify(part)


_BATCH = INGEST_BATCHES.c

_MOST_SHOWN = 10


def find_faults(stores: Stores) -> list[str]:
    """Return what is wrong with the ledger, as sentences that name the row.

    SQLite checks its pages, indexes and foreign keys. Rows of the manifest are compared with the
    files that they name, and with each other. Batches of a landing file must not overlap.
    """
    manifest = Manifest(stores.ledger)
    return [
        *_sqlite_faults(stores.ledger),
        *_overlapping_batches(stores.ledger),
        *(
            fault
            for table in TABLES
            if table is not QUARANTINE
            for fault in _part_faults(stores.lake, manifest, table)
        ),
    ]


def _sqlite_faults(ledger: Ledger) -> Iterator[str]:
    if ledger.engine.dialect.name != "sqlite":
        return
    with reading(ledger.engine) as connection:
        for (text,) in connection.execute(sa.text(f"PRAGMA integrity_check({_MOST_SHOWN})")):
            if text != "ok":
                yield f"integrity_check: {text}"
        for name, row, parent, _ in connection.execute(sa.text("PRAGMA foreign_key_check")):
            yield f"{name}, row {row}: there is no such row of {parent}"


def _overlapping_batches(ledger: Ledger) -> Iterator[str]:
    query = sa.select(_BATCH.file_id, _BATCH.from_offset, _BATCH.to_offset)
    with reading(ledger.engine) as connection:
        rows = connection.execute(query.order_by(_BATCH.file_id, _BATCH.from_offset)).all()
    for file_id, batches in groupby(rows, key=lambda row: row.file_id):
        end = 0
        for _, first, after in batches:
            if first < end or after < first:
                yield f"ingest_batches, file {file_id}: bytes {first} to {after} follow byte {end}"
            end = after


def _part_faults(lake: Lake, manifest: Manifest, table: Table) -> Iterator[str]:
    parts = manifest.all_current(table.name)
    for part in parts:
        yield from _file_faults(lake, table, part)
        if part.slot is None:
            origins = manifest.origins(part.part_id)
            read = sum(origin.row_count for origin in origins)
            if origins and read != part.row_count:
                yield f"{_row(part)}: {part.row_count} rows, its origins have {read}"
    for one, other in _pairs(parts):
        if one.replaces(other):
            yield f"{_row(one)}: part {other.part_id} of the same slot is current, too"


def _file_faults(lake: Lake, table: Table, part: Part) -> Iterator[str]:
    """Yield where a row of the manifest differs from its file; a damaged file is no fault of it."""
    if part.path.rpartition("/")[0] != lake.folder(table, part.session_date):
        yield f"{_row(part)}: its date {part.session_date} is not that of its path {part.path}"
    try:
        content = lake.content(part)
        rows = pl.scan_parquet(BytesIO(content)).select(pl.len()).collect().item()
    except (LakeError, pl.exceptions.PolarsError):
        return
    if (rows, len(content)) != (part.row_count, part.size_bytes):
        yield (
            f"{_row(part)}: {part.row_count} rows and {part.size_bytes} bytes, its file has "
            f"{rows} and {len(content)}"
        )


def _pairs(parts: Iterable[Part]) -> Iterator[tuple[Part, Part]]:
    """Yield every two parts of a date with a slot."""
    with_slot = sorted(
        (part for part in parts if part.slot), key=lambda part: (part.slot, str(part.session_date))
    )
    for _, group in groupby(with_slot, key=lambda part: (part.slot, part.session_date)):
        alike = list(group)
        yield from ((one, other) for i, one in enumerate(alike) for other in alike[:i])


def _row(part: Part) -> str:
    return f"parts, row {part.part_id}"
