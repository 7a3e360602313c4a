"""Start of a build: dates are locked and their first tables built, ahead of their turn.

Later dates are started while those of an earlier batch are finished. A date that another build
holds is waited for in its turn, while no other date is held: two builds that each hold what the
other waits for would never finish.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from evaluation_pipelines.build.batch_plan import DateGroup
from evaluation_pipelines.build.shard_build import (
    BUILD_SHARD,
    BuildContext,
    BuiltShard,
    ShardRequest,
)
from evaluation_pipelines.engine import Engine
from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.storage.buckets import ALL_BUCKETS, Shard, shards
from evaluation_pipelines.storage.compaction import compact_landed_events, sweep_orphans
from evaluation_pipelines.storage.daily_table import (
    ANY_ERROR,
    Batch,
    BuiltPartition,
    DailyTable,
    as_exception,
)
from evaluation_pipelines.storage.date_lock import date_lock
from evaluation_pipelines.storage.file_lock import LockTimeoutError
from evaluation_pipelines.storage.ledger.expired_dates import DateExpiredError, expired_dates
from evaluation_pipelines.storage.ledger.leases import Numbers
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.late_parents import children_by_date, file_late_children


class _BusyError(Exception):
    """Another build holds a date."""


@dataclass(slots=True)
class StartedDates:
    """Locked dates, their entries in the rebuild queue, and the tables built so far."""

    batch: Batch
    shards_left: int = 0
    ends_batch: bool = False
    queued: dict[date, QueuedDate | None] = field(default_factory=dict)
    built: dict[tuple[str, date], BuiltPartition | Exception] = field(default_factory=dict)
    parts: list[NewPart] = field(default_factory=list)
    leases: dict[date, Numbers] = field(default_factory=dict)
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
        return {day: each for (name, day), each in self.built.items() if name == daily.table.name}

    def failed(self) -> list[date]:
        """Return the dates with an error."""
        return [day for (_, day), built in self.built.items() if isinstance(built, Exception)]

    def close(self) -> None:
        """Unlock the dates."""
        self.locks.close()


@dataclass(slots=True)
class DateStarter:
    """Starts the dates of a build, batch after batch; ``empty`` is a batch without dates."""

    context: BuildContext
    empty: Batch
    clock: Callable[[], datetime]
    engine: Engine
    _waiting: deque[tuple[DateGroup, bool]] = field(default_factory=deque)
    _started: deque[StartedDates] = field(default_factory=deque)

    def started(
        self, batches: Iterable[Sequence[DateGroup]]
    ) -> Generator[StartedDates, None, None]:
        """Yield the dates of each batch, started; the caller closes them.

        A batch is yielded in parts if another build holds one of its dates, so that those before
        it do not wait.
        """
        for batch in batches:
            last = len(batch) - 1
            self._waiting.extend((group, index == last) for index, group in enumerate(batch))
        try:
            while self._waiting:
                yield from self._until_a_date_is_busy()
        finally:
            while self._started:
                self._started.popleft().close()

    def _until_a_date_is_busy(self) -> Iterator[StartedDates]:
        with closing(self.engine.run(BUILD_SHARD, self._requests(), self.context)) as shards_built:
            count = 0
            for _, shard in shards_built:
                self._started[count].add(shard)
                if self._started[count].shards_left:
                    continue
                count += 1
                if self._started[count - 1].ends_batch:
                    yield self._taken(count)
                    count = 0
        if count:
            yield self._taken(count)

    def _taken(self, count: int) -> StartedDates:
        """Return the first groups of dates as one."""
        groups = [self._started.popleft() for _ in range(count)]
        days = [day for each in groups for day in each.batch.days]
        joined = StartedDates(groups[0].batch.only(days))
        for each in groups:
            joined.queued |= each.queued
            joined.built |= each.built
            joined.parts += each.parts
            joined.leases |= each.leases
            joined.locks.callback(each.close)
        return joined

    def _requests(self) -> Iterator[ShardRequest]:
        """Yield the shards of groups of dates, each locked, up to one that is busy."""
        may_wait = True
        while self._waiting:
            group, ends_batch = self._waiting[0]
            try:
                started = self._locked(group, may_wait=may_wait)
            except _BusyError:
                return
            self._waiting.popleft()
            self._started.append(started)
            may_wait = False
            days = started.batch.without(started.failed()).days
            wanted = shards_of(self.context, group.days)
            started.ends_batch, started.shards_left = ends_batch, len(wanted)
            for shard in wanted:
                yield ShardRequest(days, shard, started.batch.now, group.is_large)

    def _locked(self, group: DateGroup, *, may_wait: bool) -> StartedDates:
        """Lock the dates of a group, and prepare what their tables are built from.

        The lock keeps another build from publishing older content after this one.
        """
        stores, selected = self.context.stores, self.context.selected()
        started = StartedDates(replace(self.empty.only(group.days), is_small=not group.is_large))
        with ExitStack() as locks:
            for day in group.days:
                # Read before any row: telemetry that lands later is for the next build.
                started.queued[day] = RebuildQueue(stores.ledger).get(day)
                error = self._lock(started, day, locks, may_wait=may_wait) or self._expired(day)
                if error:
                    # Files that nothing names may be those of the build that holds the date.
                    started.built[selected[0].table.name, day] = error
                    continue
                sweep_orphans(stores, [each.table for each in selected], day, self.clock())
            started.batch.now = self.clock()
            self._compact(started)
            started.locks = locks.pop_all()
        return started

    def _lock(
        self, started: StartedDates, day: date, locks: ExitStack, *, may_wait: bool
    ) -> Exception | None:
        stores = self.context.stores
        seconds = stores.settings.lease_seconds if may_wait else 0
        try:
            lock = date_lock(stores.ledger, stores.lake.locks, day, seconds)
            started.leases[day] = locks.enter_context(lock)
        except LockTimeoutError as error:
            if not may_wait:
                raise _BusyError from error
            return error
        except OSError as error:
            return error
        return None

    def _expired(self, day: date) -> Exception | None:
        """Return why a date is not built: what the selected tables are made from has expired."""
        what = expired_dates(self.context.stores.ledger).get(day)
        if what is None or (what == "texts" and AGENT_EVENTS.name not in self.context.tables):
            return None
        return DateExpiredError(day, what)

    def _compact(self, started: StartedDates) -> None:
        """File late sub-agents and merge the landed parts, if the events are to be built."""
        (first, *_) = self.context.selected()
        if first.table is not AGENT_EVENTS:
            return
        stores = self.context.stores
        children = children_by_date(stores)
        for day in started.batch.without(started.failed()).days:
            try:
                file_late_children(stores, day, children.get(day, set()), self.clock())
                compact_landed_events(stores, day, self.clock())
            except ANY_ERROR as error:
                started.built[first.table.name, day] = as_exception(error)


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
