"""Build of the daily tables of some dates; a date that fails does not affect the others.

Dates are built in batches, table by table: one statement over several dates takes far less time
than one statement per date. Tables that read no other date are prefetched while those of the
previous batch are finished. They are the large ones, so groups are smaller than batches. A limit
on memory decides how many dates are built together.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import takewhile
from operator import attrgetter

from evaluation_pipelines.build.daily_tables import AFTER_BUILD, DAILY_TABLES, TELEMETRY_TABLES
from evaluation_pipelines.build.prefetch import BusyError, prefetch
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.compaction import sweep_orphans, sweep_superseded
from evaluation_pipelines.storage.daily_table import (
    Batch,
    BuiltPartition,
    CheckFailedError,
    DailyTable,
    make_partitions,
)
from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.stores import Stores

_MIB = 1024 * 1024
_MAX_GROUP_BYTES = 5 * _MIB
"""Landed Parquet of a group: dates whose events and sessions are built by the same statements."""

_MAX_BATCH_BYTES = 20 * _MIB
"""Landed Parquet of a batch: dates whose scores are. Sessions are far fewer than events."""

_MAX_BATCH_DATES = 31


@dataclass(frozen=True, slots=True)
class DateGroup:
    """Dates whose first tables are built together, and the size of their landed events."""

    days: tuple[date, ...]
    size_bytes: int

    @property
    def is_large(self) -> bool:
        """True for a single date that exceeds the size limit of a group."""
        return self.size_bytes > _MAX_GROUP_BYTES


def plan_batches(stores: Stores, dates: Iterable[date]) -> list[list[DateGroup]]:
    """Divide dates into batches, and each batch into groups, in the order of the dates.

    Groups and batches are limited in size; a date that exceeds the limit is in one of its own.
    """
    single = [DateGroup((day,), _landed_bytes(stores, day)) for day in dates]
    groups = [
        DateGroup(tuple(day for each in packed for day in each.days), _size_bytes(packed))
        for packed in _pack(single, _MAX_GROUP_BYTES)
    ]
    return list(_pack(groups, _MAX_BATCH_BYTES))


def _pack(groups: Iterable[DateGroup], max_bytes: int) -> Iterator[list[DateGroup]]:
    packed: list[DateGroup] = []
    for group in groups:
        days = sum(len(each.days) for each in (*packed, group))
        if packed and (_size_bytes((*packed, group)) > max_bytes or days > _MAX_BATCH_DATES):
            yield packed
            packed = []
        packed.append(group)
    if packed:
        yield packed


def _size_bytes(groups: Sequence[DateGroup]) -> int:
    return sum(each.size_bytes for each in groups)


def _landed_bytes(stores: Stores, day: date) -> int:
    parts = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, day)
    return sum(part.size_bytes for part in parts)


_MAX_THREADS = 4
"""Groups that are started in parallel, if there are cores: each takes memory."""


@dataclass(frozen=True, slots=True)
class DateBuilt:
    """A date whose tables were all built: row counts by table, and other counts by name."""

    session_date: date
    rows: dict[str, int]
    facts: dict[str, int]


@dataclass(frozen=True, slots=True)
class DateFailed:
    """A date that could not be built, with the table and the error.

    ``broken`` is the partition that failed a check, if that was the error. ``attempts`` is the
    number of failures so far; a ``parked`` date is not retried automatically.
    """

    session_date: date
    table: str
    error: str
    broken: BuiltPartition | None = None
    attempts: int = 0
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """Builder of the daily tables from the landed parts in the ledger.

    Args:
        stores: Lake, ledger and settings.
        tables: Names of the tables to build; the others are read as they are.
        on_published: Called with the partitions of one table, by date, after those of all dates
            that are built together are published.
        clock: Returns the current time.
    """

    stores: Stores
    tables: Collection[str] = tuple(each.table.name for each in DAILY_TABLES)
    on_published: Callable[[Mapping[date, BuiltPartition]], None] = lambda _published: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def pending_dates(self) -> list[date]:
        """Return the dates with unbuilt data, or whose sessions have ended since the last build."""
        ScheduledRebuilds(self.stores.ledger).wake(self.clock())
        return [
            each.session_date for each in RebuildQueue(self.stores.ledger).pending(self.clock())
        ]

    def run(
        self, dates: Iterable[date], progress: Progress | None = None
    ) -> list[DateBuilt | DateFailed]:
        """Build dates, oldest first; a date that fails is in the result with its error."""
        progress, dates = progress or Silent(), sorted(dates)
        progress.begin("building dates", len(dates))
        results: list[DateBuilt | DateFailed] = []
        batches = plan_batches(self.stores, dates)
        # One thread more than cores: a thread sometimes waits for the disk.
        threads = max(1, min(sum(map(len, batches)), _core_count() + 1, _MAX_THREADS))
        empty = Batch(self.stores, (), self.clock(), self.tables)
        start = partial(self._start, empty, may_wait=True)
        try_start = partial(self._start, empty, may_wait=False)
        is_large = attrgetter("is_large")
        with closing(prefetch(batches, start, try_start, is_large, threads)) as prefetched:
            for groups in prefetched:
                with closing(_joined(groups)) as started:
                    results += self._finish(started)
                progress.advance(len(started.queued))
        sweep_superseded(self.stores, self.clock())
        return results

    def _start(self, empty: Batch, group: DateGroup, *, may_wait: bool) -> "_StartedDates":
        """Lock the dates of a group and build the tables that read no other date.

        The lock keeps another build from publishing older content after this one.
        """
        # A small date is one block for DuckDB: a second thread would only wait.
        started = _StartedDates(replace(empty.only(group.days), is_small=not group.is_large))
        with ExitStack() as locks:
            for day in group.days:
                if error := self._lock(day, locks, may_wait=may_wait):
                    started.built.append((self._selected()[0], day, error))
                # Read before any row: telemetry that lands later is for the next build.
                started.queued[day] = RebuildQueue(self.stores.ledger).get(day)
                sweep_orphans(
                    self.stores, [each.table for each in self._selected()], day, self.clock()
                )
            started.batch.now = self.clock()
            for daily in takewhile(attrgetter("alone"), self._selected()):
                batch = started.batch.without(started.failed())
                # Only previews are kept: many groups are started before the first is reported.
                started.built += [
                    (
                        daily,
                        day,
                        built.preview_rows() if isinstance(built, BuiltPartition) else built,
                    )
                    for day, built in make_partitions(daily, batch)
                ]
            started.locks = locks.pop_all()
        return started

    def _lock(self, day: date, locks: ExitStack, *, may_wait: bool) -> Exception | None:
        path = self.stores.lake.locks / f"build-{day}.lock"
        seconds = self.stores.settings.lease_seconds if may_wait else 0
        try:
            locks.enter_context(file_lock(path, seconds))
        except LockTimeoutError as error:
            if not may_wait:
                raise BusyError from error
            return error
        except OSError as error:
            return error
        return None

    def _finish(self, started: "_StartedDates") -> list[DateBuilt | DateFailed]:
        """Report the tables that were built by ``_start``, and build the others."""
        dates = {day: _DateProgress(day, queued) for day, queued in started.queued.items()}
        started.batch.now = self.clock()
        # Table by table: the report of a table looks up the versions of its inputs for all dates.
        for daily in self._selected():
            self._record(dates, daily, started.built_of(daily))
            if not daily.alone:
                batch = started.batch.without(day for day, each in dates.items() if each.failed)
                built: dict[date, BuiltPartition | Exception] = {}
                try:
                    built.update(make_partitions(daily, batch))
                finally:  # an interrupted run reports what it has published
                    self._record(dates, daily, built)
        return [
            each.failed or DateBuilt(each.day, each.rows, each.facts) for each in dates.values()
        ]

    def _record(
        self,
        dates: Mapping[date, "_DateProgress"],
        daily: DailyTable,
        results: Mapping[date, BuiltPartition | Exception],
    ) -> None:
        """Report the published partitions of a table, and record each result with its date."""
        published = {day: each for day, each in results.items() if isinstance(each, BuiltPartition)}
        if published:
            self.on_published(published)
        for day, result in results.items():
            each = dates[day]
            if isinstance(result, Exception):
                each.failed = self._failed(day, daily, each.queued, result)
                continue
            each.rows[result.table.name] = result.row_count
            each.facts |= result.facts
            if each.queued is not None and daily is self._last_counted():
                self._update_queue(each.queued, each.rows)

    def _last_counted(self) -> DailyTable | None:
        """Return the last selected table that a date needs to count as built."""
        counted = [each for each in self._selected() if each not in AFTER_BUILD]
        return counted[-1] if counted else None

    def _update_queue(self, queued: QueuedDate, rows: Mapping[str, int]) -> None:
        """Mark a date as built if all its tables were built, before later tables are."""
        day = queued.session_date
        if rows.keys() >= {each.table.name for each in TELEMETRY_TABLES}:
            RebuildQueue(self.stores.ledger).mark_built(day, queued.version)
        elif queued.parked:
            # One of its tables could be built again: the others may be, too.
            RebuildQueue(self.stores.ledger).revive(day)

    def _selected(self) -> list[DailyTable]:
        return [each for each in DAILY_TABLES if each.table.name in self.tables]

    def _failed(
        self, day: date, daily: DailyTable, queued: QueuedDate | None, error: Exception
    ) -> DateFailed:
        table = daily.table.name
        reason = f"{type(error).__name__}: {error}"
        broken = error.made if isinstance(error, CheckFailedError) else None
        updated = None
        if queued is not None and daily not in AFTER_BUILD:
            updated = RebuildQueue(self.stores.ledger).mark_failed(
                day, queued.version, reason, self.clock()
            )
        if updated is None:  # the date is not in the queue, or has newer data by now
            return DateFailed(day, table, reason, broken)
        return DateFailed(day, table, reason, broken, updated.attempts, updated.parked)


def _core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _StartedDates:
    """Locked dates, their entries in the rebuild queue, and the tables built so far."""

    batch: Batch
    queued: dict[date, QueuedDate | None] = field(default_factory=dict)
    built: list[tuple[DailyTable, date, BuiltPartition | Exception]] = field(default_factory=list)
    locks: ExitStack = field(default_factory=ExitStack)

    def built_of(self, daily: DailyTable) -> dict[date, BuiltPartition | Exception]:
        """Return the partitions or errors of a table, by date."""
        return {day: built for table, day, built in self.built if table is daily}

    def failed(self) -> list[date]:
        """Return the dates with an error."""
        return [day for _, day, built in self.built if isinstance(built, Exception)]

    def close(self) -> None:
        """Unlock the dates."""
        self.locks.close()


def _joined(groups: Sequence[_StartedDates]) -> _StartedDates:
    """Return all groups as one, which unlocks all dates when it is closed."""
    days = [day for each in groups for day in each.batch.days]
    joined = _StartedDates(groups[0].batch.only(days))
    for each in groups:
        joined.queued |= each.queued
        joined.built += each.built
        joined.locks.callback(each.close)
    return joined


@dataclass(slots=True)
class _DateProgress:
    """A date during its build: its entry in the rebuild queue, and its results so far."""

    day: date
    queued: QueuedDate | None
    rows: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    failed: DateFailed | None = None


def record_failed_run(
    stores: Stores, first: date, last: date, began: datetime, reason: str, now: datetime
) -> list[QueuedDate]:
    """Count a run that died as a failed attempt of the dates it did not build.

    Dates are skipped that are built or parked, that the run itself marked as failed after
    ``began``, or that received new data since.

    Returns:
        The updated entries of the rebuild queue.
    """
    queue = RebuildQueue(stores.ledger)
    unbuilt = [
        each
        for each in queue.all()
        if first <= each.session_date <= last
        and not (each.is_built or each.parked)
        and (each.next_attempt_at is None or each.next_attempt_at <= began)
        and each.touched_at <= began
    ]
    failed = [queue.mark_failed(each.session_date, each.version, reason, now) for each in unbuilt]
    return [each for each in failed if each is not None]
