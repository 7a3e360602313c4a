"""The first tables of some dates, shard by shard: what an engine runs for a build.

They read landed events of their own dates only. Their parts are written, but only the build makes
them current: a shard that is built twice, or killed, leaves files that nothing names. What a build
writes is current for itself at once, and for all others together.
"""

import pickle
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from socket import gethostname
from typing import Any

from pydantic import SecretStr
from sqlalchemy import make_url

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.engine import EngineError, Work
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.daily_table import (
    Batch,
    BuiltPartition,
    DailyTable,
    make_partitions,
)
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Shard
from evaluation_pipelines.storage.stores import Stores, read_stores


class StagingLake(Lake):
    """A lake whose new parts only it reads until ``commit`` makes all those of a date current.

    Threads may use it for different dates at the same time.
    """

    def __init__(self, lake: Lake, ledger: Ledger) -> None:
        super().__init__(lake.store, Manifest(ledger))
        self._ledger = ledger
        self._staged: dict[date | None, list[NewPart]] = {}

    def switch(self, parts: Collection[NewPart], _hold: Hold | None = None) -> None:
        """Stage parts in place of the current ones; ``commit`` checks the locks."""
        for part in parts:
            others = [each for each in self._of(part.session_date) if not part.replaces(each)]
            self._staged[part.session_date] = [*others, part]

    def staged(self) -> list[NewPart]:
        """Return the staged parts of all dates."""
        return [part for parts in self._staged.values() for part in parts]

    def commit(self, day: date, hold: Hold | None = None) -> None:
        """Make the staged parts of a date current in one transaction.

        Raises:
            LockLostError: The locks of ``hold`` are lost; nothing has changed.
            LakeError: A staged file is gone, for example since the machine slept for hours while
                another one swept the date; nothing has changed.
            LedgerError: The ledger cannot be used; nothing has changed.
        """
        if gone := [part.path for part in self._of(day) if not self.store.exists(part.path)]:
            raise LakeError(
                f"{', '.join(gone)} of {self.where()} was deleted while {day} was built."
            )
        Manifest(self._ledger).switch(self._of(day), datetime.now(UTC), hold)
        self.forget(day)

    def discard(self, day: date) -> None:
        """Delete the staged parts of a date, which were not committed: the disk may be full."""
        for part in self._of(day):
            with suppress(OSError):  # swept later, like the files of a crash
                self.store.delete(part.path)
        self.forget(day)

    def forget(self, day: date) -> None:
        """Forget the staged parts of a date, but keep their files.

        After an error of ``commit``: the ledger may have them although its answer was lost.
        """
        self._staged.pop(day, None)

    def _of(self, day: date | None) -> list[NewPart]:
        return self._staged.get(day, [])

    def _current(self, table: Table, dates: Collection[date | None] | None) -> list[NewPart]:
        staged = [
            part
            for day in (list(self._staged) if dates is None else dates)
            for part in self._of(day)
            if part.table_name == table.name
            and self.shard.overlaps(part.first_bucket, part.last_bucket)
        ]
        current = super()._current(table, dates)
        return [part for part in current if not any(new.replaces(part) for new in staged)] + staged


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Stores, and the names of the tables that a build makes."""

    stores: Stores
    tables: Collection[str]

    def __reduce__(self) -> tuple[Any, ...]:
        """Have another process open the stores itself; its passwords are those of stores alone."""
        settings = _elsewhere(self.stores.settings)
        only_on = gethostname() if settings.ledger_url.startswith("sqlite") else None
        return ContextElsewhere, (pickle.dumps(settings), (*self.tables,), only_on)

    def opened(self) -> "BuildContext":
        """Return this one."""
        return self

    def selected(self) -> list[DailyTable]:
        """Return the tables to build, each after those that it reads."""
        return [each for each in DAILY_TABLES if each.table.name in self.tables]


@dataclass(frozen=True, slots=True)
class ContextElsewhere:
    """The context in another process, where it arrives with the stores closed.

    They are opened within the work, so that an error of them is one of the work. ``only_on`` is the
    machine with the file of the ledger; None if a server has the ledger.
    """

    settings: bytes
    tables: Collection[str]
    only_on: str | None

    def opened(self) -> BuildContext:
        """Open the stores, unless this process has done so.

        Raises:
            EngineError: They cannot be used from here.
        """
        if self.only_on not in (None, gethostname()):
            raise EngineError(
                f"The worker on {gethostname()} cannot use the ledger, which is a file on "
                f"{self.only_on}. Nodes on several machines need EVAL_LEDGER_URL=postgresql+psycopg"
                "://user@host/database, or set EVAL_ENGINE=local. Then run the step again."
            )
        try:
            return BuildContext(_opened(self.settings)[0], self.tables)
        except UserError as error:
            raise EngineError(
                f"The worker on {gethostname()} cannot open the stores: {error} It needs the same "
                "access as this process: to the ledger, to the lake, and the environment variables "
                "with the keys of an object store."
            ) from error


@lru_cache(1)
def _opened(settings: bytes) -> tuple[Stores, ExitStack]:
    """Open stores once for all shards that this process builds, and keep them open."""
    kept_open = ExitStack()
    # They are made by a build, which sends them to its own workers.
    sent: Settings = pickle.loads(settings)  # noqa: S301
    return kept_open.enter_context(read_stores(sent, is_known=True)), kept_open


def _elsewhere(settings: Settings) -> Settings:
    """Return the settings for a process in another folder, without secrets that it needs not."""
    changes: dict[str, object] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Path):
            changes[name] = value.absolute()
        elif isinstance(value, SecretStr):
            changes[name] = None
    url = make_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and url.database:
        absolute = url.set(database=str(Path(url.database).absolute()))
        changes["ledger_url"] = absolute.render_as_string(hide_password=False)
    return settings.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """A shard of some dates. ``is_large`` is true for a single date of many events."""

    days: Sequence[date]
    shard: Shard
    now: datetime
    is_large: bool


@dataclass(frozen=True, slots=True)
class BuiltShard:
    """New parts of a shard, and of each table and date its first rows or its error."""

    parts: list[NewPart]
    results: dict[tuple[str, date], BuiltPartition | Exception]


def build_shard(sent: BuildContext | ContextElsewhere, request: ShardRequest) -> BuiltShard:
    """Build the tables of a shard that read no other date."""
    context = sent.opened()
    staging = StagingLake(context.stores.lake, context.stores.ledger)
    stores = replace(context.stores, lake=staging)
    # A small date is one block for DuckDB: a second thread would only wait.
    small = not request.is_large
    whole = Batch(stores, request.days, request.now, context.tables, is_small=small)
    batch, failed = whole.of(request.shard), set[date]()
    results: dict[tuple[str, date], BuiltPartition | Exception] = {}
    for daily in takewhile(attrgetter("alone"), context.selected()):
        for day, result in _first_rows(daily, batch.without(failed)):
            results[daily.table.name, day] = result
            if isinstance(result, Exception):
                failed.add(day)
    return BuiltShard(staging.staged(), results)


def _first_rows(daily: DailyTable, batch: Batch) -> list[tuple[date, BuiltPartition | Exception]]:
    """Build a table, and return its first rows or its error by date.

    The others are not kept, here or for the next table: many shards are built before the first is
    reported, and the rows of one may be most of the memory.
    """
    return [
        (day, each if isinstance(each, Exception) else each.only(daily.preview).first_rows())
        for day, each in make_partitions(daily, batch)
    ]


BUILD_SHARD = Work(build_shard, is_large=attrgetter("is_large"))
