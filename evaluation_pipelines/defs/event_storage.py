"""Dagster's own storage in SQLite files, which keeps its connections open.

Dagster opens and closes a database for every event, two for one about an asset, and prepares every
statement anew; a build of 90 dates has a thousand events. The files are the same as Dagster's: its
``storage: sqlite`` reads them, too. Named in ``dagster.yaml``.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, Self

import dagster as dg
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from sqlalchemy import Connection, Engine, create_engine

_EVENTS = Path("history", "runs")
"""Where Dagster has the event log, under its base folder."""

_MOST_FILES = 8
"""Open at once: that of all assets, and those of runs, of which few are written at a time."""


@dataclass(slots=True)
class _Together:
    """What is stored together: transactions by file, and what the rows of assets must know."""

    commits: ExitStack
    begun: dict[str, Connection] = field(default_factory=dict)
    newest: dict[object, tuple[Connection, EventLogEntry, int]] = field(default_factory=dict)


class EventLog(SqliteEventLogStorage):
    """The event log: a file for each run, and one for all assets (the shards of Dagster)."""

    def __init__(self, base_dir: str) -> None:
        self._turn = RLock()
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        self._stored_together: _Together | None = None
        super().__init__(base_dir)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store what is logged within in one transaction for each file.

        It is stored at the end, also after an error. Other processes that write the same files
        wait meanwhile: nothing else should be done within.
        """
        with self._turn, ExitStack() as commits:
            together = self._stored_together = _Together(commits)
            try:
                yield
            finally:
                self._stored_together = None
                for connection, event, event_id in together.newest.values():
                    super()._store_asset_event(connection, event, event_id)

    def has_table(self, table_name: str) -> bool:
        """Whether there is a table in the file of all assets; once there, it stays."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def wipe(self) -> None:
        """Forget all events; files of runs are deleted."""
        self._close(list(self._engines))
        super().wipe()

    def dispose(self) -> None:
        """Close what is open."""
        self._close(list(self._engines))
        super().dispose()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """A connection to a file, in a transaction: what every method of Dagster uses."""
        with self._turn:
            if self._stored_together is None:
                with self._engine(shard).connect() as connection, connection.begin():
                    yield connection
                return
            commits, begun = self._stored_together.commits, self._stored_together.begun
            if shard not in begun:
                begun[shard] = commits.enter_context(self._engine(shard).connect())
                commits.callback(begun[shard].begin().commit)
            yield begun[shard]

    def _store_asset_event(self, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        """Note the event in the row of its asset, which knows the newest of each type only."""
        if self._stored_together is None or event.dagster_event is None:
            super()._store_asset_event(conn, event, event_id)
            return
        kind = event.dagster_event.asset_key, event.dagster_event_type
        self._stored_together.newest.pop(kind, None)  # what comes last is noted last
        self._stored_together.newest[kind] = conn, event, event_id

    def _engine(self, shard: str) -> Engine:
        if shard in self._engines and not Path(self.path_for_shard(shard)).exists():
            self._close([shard])  # another process has wiped the log
            self._initialized_dbs.discard(shard)
        if shard not in self._engines:
            with super()._connect(shard):  # makes the file and its tables
                pass
            self._engines[shard] = create_engine(
                self.conn_string_for_shard(shard),
                pool_size=1,
                connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS},
            )
        self._engines[shard] = self._engines.pop(shard)  # the one used last comes last
        self._close(list(self._engines)[:-_MOST_FILES])
        return self._engines[shard]

    def _close(self, shards: Iterable[str]) -> None:
        with self._turn:
            for shard in shards:
                self._engines.pop(shard).dispose()


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
    """Log events of a step, together where the instance has the storage above."""
    storage = context.instance.event_log_storage
    with storage.together() if isinstance(storage, EventLog) else nullcontext():
        for event in events:
            context.log_event(event)
