"""Parts that are rewritten without some of their rows, and take the place of the old ones.

Compaction and sweep: few files per date, and none that no reader needs.

Small landed parts of a date are merged. Files of replaced parts are deleted after a grace period.

What a database or a file system does not notice: missing and changed files, changed values.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import groupby

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    QUARANTINE,
    TABLES,
    Table,
)
from evaluation_pipelines.storage.lake import DamagedPartError, Lake, LakeError
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger, ledger_time, shared_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import INGEST_BATCHES, PART_ORIGINS, PARTS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import BUCKET, NewPart, Part, PartOrigin
from evaluation_pipelines.storage.stores import Stores

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


_MERGED_BYTES, _MERGED_ROWS = 8 * 1024 * 1024, 200_000
"""Parts are merged up to this size: more rows would take much memory, and reads gain nothing."""


def compact_landed_events(stores: Stores, day: date, now: datetime) -> list[Part]:
    """Merge the small landed parts of a date if it has ``compact_parts`` or more of them.

    All rows are kept, so the number of landed events does not change.

    Returns:
        The current parts with the events; those with their texts are merged as well.
    """
    sweep_orphans(stores, (EVENT_TEXTS_LANDED, AGENT_EVENTS_LANDED), day, now)
    _compact(stores, EVENT_TEXTS_LANDED, day, now)
    return _compact(stores, AGENT_EVENTS_LANDED, day, now)


def compact_quarantine(stores: Stores, now: datetime) -> None:
    """Merge the parts of the quarantine, one per ingest with unreadable lines."""
    sweep_superseded(stores, now)
    sweep_orphans(stores, [QUARANTINE], None, now)
    _compact(stores, QUARANTINE, None, now)


def _compact(stores: Stores, table: Table, day: date | None, now: datetime) -> list[Part]:
    manifest = Manifest(stores.ledger)
    parts = manifest.current(table.name, day)
    small = [part for part in parts if part.size_bytes < _MERGED_BYTES // 2]
    if len(small) < stores.settings.compact_parts:
        return parts
    for group in _groups(small):
        _merge(stores, table, day, group, now)
    return manifest.current(table.name, day)


def _groups(parts: Iterable[Part]) -> list[list[Part]]:
    """Divide parts, in their order, into groups that are merged into one part each."""
    groups: list[list[Part]] = []
    group: list[Part] = []
    for part in parts:
        both = (*group, part)
        is_large = sum(side.size_bytes for side in both) > _MERGED_BYTES
        if group and (is_large or sum(side.row_count for side in both) > _MERGED_ROWS):
            groups.append(group)
            group = []
        group.append(part)
    return [members for members in (*groups, group) if len(members) > 1]


def _merge(
    stores: Stores, table: Table, day: date | None, parts: Sequence[Part], now: datetime
) -> None:
    # Users may delete parts of the quarantine.
    existing = [
        part for part in parts if table is not QUARANTINE or stores.lake.store.exists(part.path)
    ]
    rows = [stores.lake.read_part(part, table) for part in existing]
    merged = pl.concat([table.no_rows, *rows])
    if BUCKET in table.schema:
        merged = merged.sort(BUCKET, maintain_order=True)
    # A unique name: the part of another build may have other rows.
    name = f"merged-{parts[0].part_id}-{parts[-1].part_id}-{uuid.uuid4().hex[:8]}"
    new = stores.lake.write_part(merged, table, day, name)
    # Another process may have merged them first; its result is the same.
    with suppress(PartsNotCurrentError):
        Manifest(stores.ledger).replace([part.part_id for part in parts], new, now)


GRACE_PERIOD = timedelta(hours=1)
"""How long a superseded part stays on disk for readers of an older manifest."""


def sweep_superseded(stores: Stores, now: datetime) -> None:
    """Delete superseded parts after the grace period, if no published database names them."""
    manifest = Manifest(stores.ledger)
    stale = manifest.sweepable(_not_ahead(stores, now) - GRACE_PERIOD)
    for part in stale:
        stores.lake.store.delete(part.path)
    manifest.delete_superseded([part.part_id for part in stale])


def sweep_orphans(stores: Stores, tables: Iterable[Table], day: date | None, now: datetime) -> None:
    """Delete files that crashes left in the partitions of a date: the manifest names none."""
    before = _not_ahead(stores, now) - GRACE_PERIOD
    known = Manifest(stores.ledger).known_paths(day)
    for table in tables:
        stores.lake.sweep(table, day, known, before, grace=GRACE_PERIOD)


def _not_ahead(stores: Stores, now: datetime) -> datetime:
    """Return a time that is not later than that of the ledger.

    A machine whose clock is ahead would delete what others are writing.
    """
    return min(now, ledger_time(stores.ledger, now))


_MOST_REMEMBERED = 100_000


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
    for table in (candidate for candidate in TABLES if candidate is not QUARANTINE):
        parts = Manifest(stores.ledger).all_current(table.name)
        files = {file.path: file.changed_at for file in lake.store.list(f"{table.name}/")}
        for part in parts:
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
