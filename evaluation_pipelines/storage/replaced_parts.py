"""Parts that are rewritten without some of their rows, and take the place of the old ones."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import PART_ORIGINS, PARTS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part, PartOrigin

_PART, _ORIGIN = PARTS.c, PART_ORIGINS.c

TABLES_BY_NAME = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True)
class Change:
    """A part, what took its place (None: nothing), and what is left of the bytes it is from."""

    old: Part
    new: NewPart | None
    origins: Mapping[PartOrigin, int]


def removed_rows(changes: Iterable[Change]) -> Counter[str]:
    """Return how many rows went, by table."""
    gone = Counter[str]()
    for change in changes:
        left = change.new.row_count if change.new else 0
        gone[change.old.table_name] += change.old.row_count - left
    return gone


def replace_parts(
    ledger: Ledger,
    lake: Lake,
    hold: Hold | None,
    left: Iterable[tuple[Part, pl.DataFrame | None]],
    now: datetime,
    also: Callable[[sa.Connection, Sequence[Change]], None],
) -> list[Change] | None:
    """Put what is left of parts in their place, all in one transaction.

    Args:
        ledger: Has the manifest.
        lake: Has the parts.
        hold: The lock of who replaces them.
        left: Each part with its rows that stay; None: nothing takes its place.
        now: The current time.
        also: Called within the transaction.

    Returns:
        None if a part was merged or replaced meanwhile; nothing changed.

    Raises:
        LakeError: A part cannot be read or written.
        LockLostError: The lock is lost; nothing changed.
    """
    changes = [_staged(ledger, lake, part, rows) for part, rows in left]
    ids = [replaced.old.part_id for replaced in changes]
    is_old = sa.and_(_PART.part_id.in_(ids), _PART.superseded_at.is_(None))
    is_done = False
    try:
        with writing(ledger.engine) as connection:
            if hold is not None:
                hold.check(connection)
            savepoint = connection.begin_nested()
            superseded = sa.update(PARTS).values(superseded_at=shared_time(connection, now))
            if connection.execute(superseded.where(is_old)).rowcount != len(ids):
                savepoint.rollback()
                return None
            for change in changes:
                _insert(connection, change, now)
            also(connection, changes)
            savepoint.commit()
        is_done = True
        return changes
    finally:
        for change in changes:
            if change.new is not None and not is_done:
                lake.store.delete(change.new.path)


def _staged(ledger: Ledger, lake: Lake, part: Part, rows: pl.DataFrame | None) -> Change:
    if rows is None:
        return Change(part, None, {})
    name = f"kept-{part.part_id}-{uuid.uuid4().hex[:8]}"
    table = TABLES_BY_NAME[part.table_name]
    new = lake.write_part(rows, table, part.session_date, name)
    if part.slot is not None:  # it has the buckets of its shard, whatever its rows
        first, last = part.first_bucket, part.last_bucket
        new = replace(new, slot=part.slot, first_bucket=first, last_bucket=last)
    origins = Manifest(ledger).origins(part.part_id)
    return Change(part, new, {origin: rows_from(rows, origin) for origin in origins})


def rows_from(rows: pl.DataFrame, origin: PartOrigin) -> int:
    """Return how many rows are from some bytes of a landing file."""
    prefix = "" if "file_id" in rows.columns else "source_"
    is_from = (pl.col(f"{prefix}file_id") == origin.file_id) & pl.col(f"{prefix}offset").is_between(
        origin.from_offset, origin.to_offset, closed="left"
    )
    return rows.filter(is_from).height


def _insert(connection: sa.Connection, change: Change, now: datetime) -> None:
    if change.new is None:
        return
    insert = sa.insert(PARTS).values(**asdict(change.new), created_at=now)
    part_id = connection.execute(insert.returning(_PART.part_id)).scalar_one()
    # Where nothing is left of some bytes, the old part keeps them until it is deleted.
    for origin, rows in ((origin, rows) for origin, rows in change.origins.items() if rows):
        is_origin = (
            _ORIGIN.part_id == change.old.part_id,
            _ORIGIN.file_id == origin.file_id,
            _ORIGIN.from_offset == origin.from_offset,
        )
        update = sa.update(PART_ORIGINS).where(*is_origin)
        connection.execute(update.values(part_id=part_id, row_count=rows))
