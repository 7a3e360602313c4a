"""Dates that a build has started: locked in batches, with their first tables built by the engine.

A date that another build holds is left for the end and waited for while no other date is held: two
builds that each hold what the other waits for would never finish.

An engine builds the first tables shard by shard. They read landed events of their own dates only.
Their parts are written, but only the build makes them current: a shard that is built twice, or
killed, leaves files that nothing names. What a build writes is current for itself at once, and for
all others together.
"""

import pickle
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
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
from evaluation_pipelines.engine import Engine, EngineError, Work
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    Table,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.compaction import compact_landed_events, sweep_orphans
from evaluation_pipelines.storage.daily_table import (
    ANY_ERROR,
    Batch,
    BuiltPartition,
    DailyTable,
    as_exception,
    make_partitions,
)
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    DateExpiredError,
    QueuedDate,
    RebuildQueue,
    expired_dates,
)
from evaluation_pipelines.storage.lock import BUILD, Hold, LockTimeoutError, held
from evaluation_pipelines.storage.parts import ALL_BUCKETS, NewPart, Shard, shards
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
            others = [
                staged
                for staged in self._staged_parts(part.session_date)
                if not part.replaces(staged)
            ]
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
        if gone := [
            part.path for part in self._staged_parts(day) if not self.store.exists(part.path)
        ]:
            raise LakeError(
                f"{', '.join(gone)} of {self.where()} was deleted while {day} was built."
            )
        Manifest(self._ledger).switch(self._staged_parts(day), datetime.now(UTC), hold)
        self.forget(day)

    def discard(self, day: date) -> None:
        """Delete the staged parts of a date, which were not committed: the disk may be full."""
        for part in self._staged_parts(day):
            with suppress(OSError):  # swept later, like the files of a crash
                self.store.delete(part.path)
        self.forget(day)

    def forget(self, day: date) -> None:
        """Forget the staged parts of a date, but keep their files.

        After an error of ``commit``: the ledger may have them although its answer was lost.
        """
        self._staged.pop(day, None)

    def _staged_parts(self, day: date | None) -> list[NewPart]:
        return self._staged.get(day, [])

    def _current(self, table: Table, dates: Collection[date | None] | None) -> list[NewPart]:
        staged = [
            part
            for day in (list(self._staged) if dates is None else dates)
            for part in self._staged_parts(day)
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
        return [table for table in DAILY_TABLES if table.table.name in self.tables]


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
        (day, made if isinstance(made, Exception) else made.only(daily.preview).first_rows())
        for day, made in make_partitions(daily, batch)
    ]


BUILD_SHARD = Work(build_shard, is_large=attrgetter("is_large"))


_MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Landed Parquet of a batch."""

_MAX_BATCH_DATES = 31


@dataclass(frozen=True, slots=True)
class DateBatch:
    """Dates that are built together, and the size of their landed events."""

    days: tuple[date, ...]
    size_bytes: int

    @property
    def is_large(self) -> bool:
        """True for a single date that exceeds the size limit of a batch."""
        return self.size_bytes > _MAX_BATCH_BYTES


@dataclass(slots=True)
class StartedDates:
    """Locked dates, their entries in the rebuild queue, and the tables built so far."""

    batch: Batch
    shards_left: int = 0
    queued: dict[date, QueuedDate | None] = field(default_factory=dict)
    built: dict[tuple[str, date], BuiltPartition | Exception] = field(default_factory=dict)
    parts: list[NewPart] = field(default_factory=list)
    holds: dict[date, Hold] = field(default_factory=dict)
    locks: ExitStack = field(default_factory=ExitStack)

    def add(self, shard: BuiltShard) -> None:
        """Add the parts and results of a shard to those of the others."""
        self.shards_left -= 1
        self.parts += shard.parts
        for key, result in shard.results.items():
            before = self.built.get(key)
            if isinstance(before, BuiltPartition) and isinstance(result, BuiltPartition):
                self.built[key] = before.joined(result)
            elif not isinstance(before, Exception):
                self.built[key] = result

    def built_of(self, daily: DailyTable) -> dict[date, BuiltPartition | Exception]:
        """Return the partitions or errors of a table, by date."""
        return {day: made for (name, day), made in self.built.items() if name == daily.table.name}

    def failed(self) -> list[date]:
        """Return the dates with an error."""
        return [day for (_, day), built in self.built.items() if isinstance(built, Exception)]

    def close(self) -> None:
        """Unlock the dates."""
        self.locks.close()


@dataclass(slots=True)
class DateStarter:
    """Starts the dates of a build; ``empty`` is a batch without dates.

    With ``only_due`` dates are left out that another build has finished by the time of their lock.
    """

    context: BuildContext
    empty: Batch
    clock: Callable[[], datetime]
    engine: Engine
    only_due: bool = False
    _started: deque[StartedDates] = field(default_factory=deque)
    _busy: list[date] = field(default_factory=list)

    def started(self, dates: Iterable[date]) -> Generator[StartedDates, None, None]:
        """Yield the dates batch by batch, started; the caller closes them."""
        stores = self.context.stores
        try:
            yield from self._built(_batches(stores, dates), may_wait=False)
            for day in self._busy:
                yield from self._built(_batches(stores, [day]), may_wait=True)
        finally:
            while self._started:
                self._started.popleft().close()

    def _built(self, batches: Iterable[DateBatch], *, may_wait: bool) -> Iterator[StartedDates]:
        """Yield batches whose first tables the engine has built; it works on the next ones."""
        requests = self._requests(batches, may_wait=may_wait)
        with closing(self.engine.run(BUILD_SHARD, requests, self.context)) as shards_built:
            for _, shard in shards_built:
                self._started[0].add(shard)
                if not self._started[0].shards_left:
                    yield self._started.popleft()

    def _requests(self, batches: Iterable[DateBatch], *, may_wait: bool) -> Iterator[ShardRequest]:
        """Yield the shards of batches of dates, each locked."""
        for planned in batches:
            started = self._locked(planned, may_wait=may_wait)
            if not started.queued:
                started.close()
                continue
            self._started.append(started)
            days = started.batch.without(started.failed()).days
            wanted = shards_of(self.context, started.batch.days)
            started.shards_left = len(wanted)
            for shard in wanted:
                yield ShardRequest(days, shard, started.batch.now, planned.is_large)

    def _locked(self, planned: DateBatch, *, may_wait: bool) -> StartedDates:
        """Lock the dates of a batch, and prepare what their tables are built from.

        The lock keeps another build from publishing older content after this one.
        """
        stores, selected = self.context.stores, self.context.selected()
        whole = replace(self.empty.only(planned.days), is_small=not planned.is_large)
        started = StartedDates(whole)
        with ExitStack() as locks:
            started.queued = dict.fromkeys(planned.days)
            failed = self._hold(started, locks, may_wait=may_wait)
            # Read before any row: telemetry that lands later is for the next build.
            started.queued = self._queued(started.queued)
            for day in started.queued:
                error = failed.get(day) or self._expired(day)
                if error:
                    # Files that nothing names may be those of the build that holds the date.
                    started.built[selected[0].table.name, day] = error
                    continue
                sweep_orphans(stores, [table.table for table in selected], day, self.clock())
            started.batch = whole.only([*started.queued])
            started.batch.now = self.clock()
            self._compact(started)
            started.locks = locks.pop_all()
        return started

    def _queued(self, days: Iterable[date]) -> dict[date, QueuedDate | None]:
        """Return the entries of dates in the rebuild queue; with ``only_due`` of those to build."""
        queue = RebuildQueue(self.context.stores.ledger)
        found = {day: queue.get(day) for day in days}
        if not self.only_due:
            return found
        return {
            day: queued_date
            for day, queued_date in found.items()
            if queued_date is None or not queued_date.is_built
        }

    def _hold(
        self, started: StartedDates, locks: ExitStack, *, may_wait: bool
    ) -> dict[date, Exception]:
        """Lock the dates of a batch by one lock; return the errors of those that cannot be had.

        Without ``may_wait`` those that another build holds are left for the end.
        """
        stores = self.context.stores
        seconds = stores.settings.lock_timeout_seconds if may_wait else 0
        free, failed = {f"{BUILD}{day}": day for day in started.queued}, dict[date, Exception]()
        while free:
            try:
                hold = locks.enter_context(held(stores.ledger, *free, timeout_s=seconds))
            except LockTimeoutError as error:
                day = free.pop(error.name)
                if may_wait:
                    failed[day] = error
                else:
                    self._busy.append(day)
                    del started.queued[day]
            except OSError as error:
                return failed | dict.fromkeys(free.values(), error)
            else:
                started.holds = dict.fromkeys(free.values(), hold)
                break
        return failed

    def _expired(self, day: date) -> Exception | None:
        """Return why a date is not built: what the selected tables are made from has expired."""
        what = expired_dates(self.context.stores.ledger).get(day)
        if what is None or (what == "texts" and AGENT_EVENTS.name not in self.context.tables):
            return None
        return DateExpiredError(day, what)

    def _compact(self, started: StartedDates) -> None:
        """Merge the landed parts, if the events are to be built."""
        (first, *_) = self.context.selected()
        if first.table is not AGENT_EVENTS:
            return
        stores = self.context.stores
        for day in started.batch.without(started.failed()).days:
            try:
                compact_landed_events(stores, day, self.clock())
            except ANY_ERROR as error:
                started.built[first.table.name, day] = as_exception(error)


def _batches(stores: Stores, dates: Iterable[date]) -> list[DateBatch]:
    """Divide dates into batches of a limited size; a date that exceeds it is in one of its own."""
    batches: list[DateBatch] = []
    for day in dates:
        size_bytes = _landed_bytes(stores, day)
        if batches and _has_room(batches[-1], size_bytes):
            last = batches.pop()
            batches.append(DateBatch((*last.days, day), last.size_bytes + size_bytes))
        else:
            batches.append(DateBatch((day,), size_bytes))
    return batches


def _has_room(batch: DateBatch, size_bytes: int) -> bool:
    fits = batch.size_bytes + size_bytes <= _MAX_BATCH_BYTES
    return fits and len(batch.days) < _MAX_BATCH_DATES


def _landed_bytes(stores: Stores, day: date) -> int:
    manifest = Manifest(stores.ledger)
    landed = (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED)
    return sum(part.size_bytes for table in landed for part in manifest.current(table.name, day))


def shards_of(context: BuildContext, days: Sequence[date]) -> list[Shard]:
    """Return the shards in which dates are built: those of their events, if these are kept."""
    wanted = shards(context.stores.settings.shards)
    if AGENT_EVENTS.name in context.tables:
        return wanted
    parts = context.stores.lake.parts(AGENT_EVENTS, days)
    fits = all(
        any(shard.contains(part.first_bucket, part.last_bucket) for shard in wanted)
        for part in parts
    )
    return wanted if fits else [ALL_BUCKETS]
