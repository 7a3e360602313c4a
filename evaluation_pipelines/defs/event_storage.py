"""Dagster's own storage in SQLite files, which stores several events in one transaction.

Dagster opens two databases for every event about an asset and prepares every statement anew; a run
over 90 dates has a thousand such events. Its own batches of events are for other storages. The
files are the same as Dagster's: its ``storage: sqlite`` reads them, too. Named in ``dagster.yaml``.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import local
from typing import Any, Self

import dagster as dg
from dagster._core.events import ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlalchemy_compat import db_result
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from sqlalchemy import Connection

# Else Dagster hands over no batch: those it has are what a run plans to make.
os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "1000")

_EVENTS = Path("history", "runs")
"""Where Dagster has the event log, under its base folder."""


class EventLog(SqliteEventLogStorage):
    """The event log: a file for each run, and one for all assets."""

    def __init__(self, base_dir: str) -> None:
        self._of_thread = local()
        super().__init__(base_dir)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store what this thread logs within as one batch, at the end.

        So it is after an error within, too. Nothing of it is stored if the process is killed
        before, or if a database refuses it: then that error is raised.
        """
        if self._waiting() is not None:
            yield
            return
        waiting = self._of_thread.waiting = []
        try:
            yield
        finally:
            self._of_thread.waiting = None
            self.store_event_batch(waiting)

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event, or keep it until the end of ``together``."""
        waiting = self._waiting()
        if waiting is None:
            super().store_event(event)
        else:
            waiting.append(event)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events about assets in one transaction for each file; others one by one."""
        by_run: dict[str, list[EventLogEntry]] = {}
        for event in events:
            if event.dagster_event_type in ASSET_EVENTS and _asset_key(event) is not None:
                by_run.setdefault(event.run_id, []).append(event)
        for run_id, about_assets in by_run.items():
            # First the file that others write, too: if it is locked, nothing is stored twice when
            # the events are tried again.
            with self.index_transaction() as connection:
                self._store_in_index(connection, about_assets)
            with self.run_connection(run_id) as connection:
                for event in about_assets:
                    connection.execute(self.prepare_insert_event(event))
        stored = {id(event) for each in by_run.values() for event in each}
        for event in events:
            if id(event) not in stored:
                self.store_event(event)

    def _store_in_index(self, connection: Connection, events: Sequence[EventLogEntry]) -> None:
        event_ids = []
        # The row of an asset knows the newest event of each type: only these are noted there.
        newest: dict[object, tuple[EventLogEntry, int]] = {}
        for event in events:
            with db_result(connection, self.prepare_insert_event(event)) as result:
                event_ids.append(result.inserted_primary_key[0])
            kind = _asset_key(event), event.dagster_event_type
            newest.pop(kind, None)  # what comes last is noted last
            newest[kind] = event, event_ids[-1]
        self._store_asset_event_tags(connection, events, event_ids)
        for event, event_id in newest.values():
            self._store_asset_event(connection, event, event_id)

    def _waiting(self) -> list[EventLogEntry] | None:
        """Events that this thread will store together, if it does."""
        return getattr(self._of_thread, "waiting", None)


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
    """Log events of a step, together where the instance has the storage above.

    What was logged before an error of ``events`` is stored.
    """
    storage = context.instance.event_log_storage
    with storage.together() if isinstance(storage, EventLog) else nullcontext():
        for event in events:
            context.log_event(event)


def _asset_key(event: EventLogEntry) -> dg.AssetKey | None:
    return None if event.dagster_event is None else event.dagster_event.asset_key
