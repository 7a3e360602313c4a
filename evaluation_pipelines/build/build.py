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
    announced,
    make_partitions,
)
from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.staging import StagingLake
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
            that are built together have become current.
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
        staging = StagingLake(self.stores.lake, self.stores.ledger)
        empty = Batch(replace(self.stores, lake=staging), (), self.clock(), self.tables)
        start = partial(self._start, empty, may_wait=True)
        try_start = partial(self._start, empty, may_wait=False)
        is_large = attrgetter("is_large")
        with closing(prefetch(batches, start, try_start, is_large, threads)) as prefetched:
            for groups in prefetched:
                with closing(_joined(groups)) as started:
                    results += self._finish(started, staging)
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

    def _finish(
        self, started: "_StartedDates", staging: StagingLake
    ) -> list[DateBuilt | DateFailed]:
        """Build the tables that ``_start`` has not built, and make those of each date current.

        All tables of a date become current together, or none. Tables that are built after a date
        counts as built follow together.
        """
        dates = {day: _DateProgress(day, queued) for day, queued in started.queued.items()}
        started.batch.now = self.clock()
        after = [each for each in self._selected() if each in AFTER_BUILD]
        counted = [each for each in self._selected() if each not in AFTER_BUILD]
        for tables in (counted, after):
            for daily in tables:
                self._make(daily, started, dates)
            self._publish(tables, dates, staging)
            if tables is counted:
                self._update_queue(dates.values())
        return [
            each.failed or DateBuilt(each.day, each.rows, each.facts) for each in dates.values()
        ]

    def _make(
        self, daily: DailyTable, started: "_StartedDates", dates: Mapping[date, "_DateProgress"]
    ) -> None:
        """Stage a table of the dates that have not failed, and record each result."""
        results = started.built_of(daily)
        if not daily.alone:
            batch = started.batch.without(day for day, each in dates.items() if each.failed)
            results = dict(make_partitions(daily, batch))
        for day, result in results.items():
            if isinstance(result, Exception):
                dates[day].failed = self._failed(day, daily, dates[day].queued, result)
            else:
                dates[day].staged[daily.table.name] = result

    def _publish(
        self,
        tables: Sequence[DailyTable],
        dates: Mapping[date, "_DateProgress"],
        staging: StagingLake,
    ) -> None:
        """Make the staged tables current, date by date, and report them table by table.

        The report of a table looks up the versions of its inputs for all dates.
        """
        published: dict[str, dict[date, BuiltPartition]] = {each.table.name: {} for each in tables}
        try:
            for day, each in dates.items():
                for name, built in self._commit(tables, each, staging).items():
                    published[name][day] = built
        finally:  # an interrupted run reports what it has published
            for of_table in filter(None, published.values()):
                self.on_published(of_table)

    def _commit(
        self, tables: Sequence[DailyTable], date_progress: "_DateProgress", staging: StagingLake
    ) -> dict[str, BuiltPartition]:
        """Make the staged tables of a date current; return them, or nothing if it has failed."""
        day, staged = date_progress.day, date_progress.staged
        if date_progress.failed or not staged:
            staging.discard(day)
            return {}
        daily = tables[-1]
        try:
            staging.commit(day)
            for daily in tables:
                built = announced(daily, self.stores, day, staged[daily.table.name], self.clock())
                staged[daily.table.name] = built
        except Exception as error:  # noqa: BLE001 - one date must not stop the others
            staging.discard(day)
            date_progress.failed = self._failed(day, daily, date_progress.queued, error)
            return {}
        date_progress.take_published()
        return staged

    def _update_queue(self, dates: Iterable["_DateProgress"]) -> None:
        """Mark dates as built whose tables were all built, before later tables are."""
        queue = RebuildQueue(self.stores.ledger)
        for each in dates:
            if each.queued is None or each.failed or not each.rows:
                continue
            if each.rows.keys() >= {daily.table.name for daily in TELEMETRY_TABLES}:
                queue.mark_built(each.day, each.queued.version)
            elif each.queued.parked:
                # One of its tables could be built again: the others may be, too.
                queue.revive(each.day)

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
    staged: dict[str, BuiltPartition] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    failed: DateFailed | None = None

    def take_published(self) -> None:
        """Count the rows of the staged tables, which are now current."""
        for name, built in self.staged.items():
            self.rows[name] = built.row_count
            self.facts |= built.facts
        self.staged = {}


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
