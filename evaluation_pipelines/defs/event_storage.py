"""SQLite storage of Dagster that stores the events of many partitions in one transaction.

Dagster's own storage opens two databases for every event about an asset and prepares every
statement again; a run over 90 dates has a thousand such events. Batches of events are implemented
for other storages only. The files have the same format, so ``storage: sqlite`` can read them.
Named in ``dagster.yaml``.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import local
from typing import Any, Self

import dagster as dg
from sqlalchemy import Connection

from evaluation_pipelines.defs.dagster_private import (
    ASSET_EVENTS,
    DagsterSqliteStorage,
    SqliteEventLogStorage,
    db_result,
)

# Without it Dagster passes no batches, such as the materializations that a run plans.
os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "1000")

_EVENTS = Path("history", "runs")
"""Folder of Dagster's event log under its base folder."""


class EventLog(SqliteEventLogStorage):
    """Event log with one file per run, and one file for all assets."""

    def __init__(self, base_dir: str) -> None:
        self._of_thread = local()
        super().__init__(base_dir)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Store the events that this thread logs in the block as one batch when the block ends.

        The batch is stored even if the block raises. Nothing of it is stored if the process is
        killed before, or if a database refuses it, which raises the database error.
        """
        if self._batched() is not None:
            yield
            return
        batched = self._of_thread.batched = []
        try:
            yield
        finally:
            self._of_thread.batched = None
            self.store_event_batch(batched)

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store an event, or add it to the batch of this thread."""
        batched = self._batched()
        if batched is None:
            super().store_event(event)
        else:
            batched.append(event)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store events about assets in one transaction per file, and the others one by one."""
        by_run: dict[str, list[dg.EventLogEntry]] = {}
        for event in events:
            if event.dagster_event_type in ASSET_EVENTS and _asset_key(event) is not None:
                by_run.setdefault(event.run_id, []).append(event)
        for run_id, about_assets in by_run.items():
            # The file that other processes write comes first: if it is locked, nothing is stored
            # twice when the events are retried.
            with self.index_transaction() as connection:
                self._store_in_index(connection, about_assets)
            with self.run_connection(run_id) as connection:
                for event in about_assets:
                    connection.execute(self.prepare_insert_event(event))
        stored = {id(event) for each in by_run.values() for event in each}
        for event in events:
            if id(event) not in stored:
                self.store_event(event)

    def _store_in_index(self, connection: Connection, events: Sequence[dg.EventLogEntry]) -> None:
        event_ids = []
        # The row of an asset refers to the newest event of each type only.
        newest: dict[object, tuple[dg.EventLogEntry, int]] = {}
        for event in events:
            with db_result(connection, self.prepare_insert_event(event)) as result:
                event_ids.append(result.inserted_primary_key[0])
            kind = _asset_key(event), event.dagster_event_type
            newest.pop(kind, None)  # keeps the order of the newest events
            newest[kind] = event, event_ids[-1]
        self._store_asset_event_tags(connection, events, event_ids)
        for event, event_id in newest.values():
            self._store_asset_event(connection, event, event_id)

    def _batched(self) -> list[dg.EventLogEntry] | None:
        """Return the batch of this thread; ``None`` outside of ``batch``."""
        return getattr(self._of_thread, "batched", None)


class SqliteStorage(DagsterSqliteStorage):
    """All of Dagster's state in SQLite files under ``base_dir``."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = EventLog(str(Path(base_dir) / _EVENTS))

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> Self:
        """As ``dagster.yaml`` configures it: ``base_dir``, as of Dagster's own."""
        return cls.from_local(inst_data=inst_data, **config_value)


def log_events(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    events: Iterable[dg.AssetMaterialization | dg.AssetObservation],
) -> None:
    """Log events of a step as one batch.

    If ``events`` raises, the events before the error are stored.
    """
    with batch_of_events(context.instance):
        for event in events:
            context.log_event(event)


def batch_of_events(instance: dg.DagsterInstance) -> AbstractContextManager[None]:
    """Return the ``batch`` of an instance that uses ``EventLog``; of others it does nothing."""
    storage = instance.event_log_storage
    return storage.batch() if isinstance(storage, EventLog) else nullcontext()


def _asset_key(event: dg.EventLogEntry) -> dg.AssetKey | None:
    return None if event.dagster_event is None else event.dagster_event.asset_key
