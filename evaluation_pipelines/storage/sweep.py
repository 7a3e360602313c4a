"""Sweep: delete the files of parts that no reader needs any more."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

GRACE_PERIOD = timedelta(hours=1)
"""How long a superseded part stays on disk for readers of an older manifest."""


def sweep_superseded(stores: Stores, now: datetime) -> None:
    """Delete superseded parts after the grace period, if no published database names them."""
    manifest = Manifest(stores.ledger)
    stale = manifest.sweepable(now - GRACE_PERIOD)
    for part in stale:
        (stores.lake.root / part.path).unlink(missing_ok=True)
    manifest.delete_superseded([part.part_id for part in stale])


def sweep_orphans(stores: Stores, tables: Iterable[Table], day: date | None, now: datetime) -> None:
    """Delete files that crashes left in the partitions of a date: the manifest names none."""
    known = Manifest(stores.ledger).known_paths(day)
    for table in tables:
        stores.lake.sweep(table, day, known, now - GRACE_PERIOD)
