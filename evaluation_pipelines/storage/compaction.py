"""Compaction and sweep: few files per date, and none that no reader needs.

Small landed parts of a date are merged. Files of replaced parts are deleted after a grace period.
"""

import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, QUARANTINE, Table
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import ledger_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import BUCKET, Part
from evaluation_pipelines.storage.stores import Stores

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
