"""Compaction: many small landed parts of a date become one, and what nobody reads is deleted."""

import uuid
from contextlib import suppress
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.adapters.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.adapters.ledger.records import NewPart, Part
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.stores import Stores

GRACE = timedelta(hours=1)
"""How long a merged-away part stays on disk: whoever read the manifest before may still open it."""


def merged_parts(stores: Stores, day: date, now: datetime) -> list[Part]:
    """The landed parts of a date, merged first when there are ``compact_parts`` or more.

    All rows are kept: how many events landed stays countable.
    """
    table, manifest = AGENT_EVENTS_LANDED, stores.ledger.parts
    _tidy(stores, day, now)
    parts = manifest.current(table.name, day)
    if len(parts) < stores.settings.compact_parts:
        return parts
    merged = pl.concat([stores.lake.read_part(part.path, table) for part in parts])
    # Never the name of another build's part, which may hold other rows.
    name = f"merged-{parts[0].part_id}-{parts[-1].part_id}-{uuid.uuid4().hex[:8]}"
    path, size_bytes = stores.lake.write_part(merged, table, day, name)
    new = NewPart(table.name, day, path, merged.height, size_bytes)
    # Another build may have merged them a moment earlier: its result is as good.
    with suppress(PartsNotCurrentError):
        manifest.replace([part.part_id for part in parts], new, now)
    return manifest.current(table.name, day)


def _tidy(stores: Stores, day: date, now: datetime) -> None:
    """Delete parts that were merged away, and what crashes left in the folder of a date."""
    before, table, manifest = now - GRACE, AGENT_EVENTS_LANDED, stores.ledger.parts
    stale = [part for part in manifest.superseded_before(before) if part.session_date == day]
    for part in stale:
        (stores.lake.root / part.path).unlink(missing_ok=True)
    manifest.forget([part.part_id for part in stale])
    stores.lake.sweep(table, day, manifest.known_paths(table.name, day), before)
