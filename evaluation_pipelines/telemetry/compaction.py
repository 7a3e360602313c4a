"""Compaction: many small landed parts of a date become one, and what nobody reads is deleted."""

import uuid
from contextlib import suppress
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, QUARANTINE, Table
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ledger.records import NewPart, Part

GRACE = timedelta(hours=1)
"""How long a merged-away part stays on disk: whoever read the manifest before may still open it."""


def merged_parts(stores: Stores, day: date, now: datetime) -> list[Part]:
    """The landed parts of a date, merged first when there are ``compact_parts`` or more.

    All rows are kept: how many events landed stays countable.
    """
    return _merged(stores, AGENT_EVENTS_LANDED, day, now)


def tidy_quarantine(stores: Stores, now: datetime) -> None:
    """Merge the parts of the quarantine likewise: a bad source makes one with each ingest."""
    _merged(stores, QUARANTINE, None, now)


def _merged(stores: Stores, table: Table, day: date | None, now: datetime) -> list[Part]:
    manifest = Manifest(stores.ledger)
    _tidy(stores, table, day, now)
    parts = manifest.current(table.name, day)
    if len(parts) < stores.settings.compact_parts:
        return parts
    # People may delete parts of the quarantine.
    there = [
        part for part in parts if table is not QUARANTINE or (stores.lake.root / part.path).exists()
    ]
    rows = [stores.lake.read_part(part.path, table) for part in there]
    merged = pl.concat([table.schema.to_frame(), *rows])
    # Never the name of another build's part, which may hold other rows.
    name = f"merged-{parts[0].part_id}-{parts[-1].part_id}-{uuid.uuid4().hex[:8]}"
    path, size_bytes = stores.lake.write_part(merged, table, day, name)
    new = NewPart(table.name, day, path, merged.height, size_bytes)
    # Another process may have merged them a moment earlier: its result is as good.
    with suppress(PartsNotCurrentError):
        manifest.replace([part.part_id for part in parts], new, now)
    return manifest.current(table.name, day)


def _tidy(stores: Stores, table: Table, day: date | None, now: datetime) -> None:
    """Delete parts that were merged away, and what crashes left in the folder."""
    before, manifest = now - GRACE, Manifest(stores.ledger)
    stale = [
        part
        for part in manifest.superseded_before(before)
        if (part.table_name, part.session_date) == (table.name, day)
    ]
    for part in stale:
        (stores.lake.root / part.path).unlink(missing_ok=True)
    manifest.forget([part.part_id for part in stale])
    stores.lake.sweep(table, day, manifest.known_paths(table.name, day), before)
