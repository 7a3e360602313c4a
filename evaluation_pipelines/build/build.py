"""Build: all daily tables of some dates; a date that fails leaves the others alone.

Dates are built some at a time, table after table: a statement over several dates takes far less
than one for each. The tables that need no other date are made ahead, while those of the dates
before are finished; they are the large ones, so that the others are made for more dates at once.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import takewhile
from operator import attrgetter

from evaluation_pipelines.build.batch_plan import DateGroup, plan_batches
from evaluation_pipelines.build.daily_tables import AFTER_BUILD, DAILY_TABLES, OF_TELEMETRY
from evaluation_pipelines.build.prefetch import BusyError, prefetch
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.daily_table import (
    Batch,
    BuiltPartition,
    CheckFailedError,
    DailyTable,
    make_partitions,
)
from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.stores import Stores

_MOST_AT_ONCE = 4
"""So many groups are begun at once, where there are cores: each takes memory."""


@dataclass(frozen=True, slots=True)
class DateBuilt:
    """A date whose tables were all made: rows by table, and what else was counted."""

    session_date: date
    rows: dict[str, int]
    facts: dict[str, int]


@dataclass(frozen=True, slots=True)
class DateFailed:
    """A date that could not be built, at which table, why, and how often that has happened now.

    ``broken`` is the partition that broke a rule, where that was the reason; ``parked`` says that
    it is not tried again by itself.
    """

    session_date: date
    table: str
    error: str
    broken: BuiltPartition | None = None
    attempts: int = 0
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """Makes the daily tables from the landed parts that the ledger names.

    Args:
        stores: Where everything lies.
        tables: Names of the tables to make; the others are taken as they are.
        on_made: Told of the partitions of a table, by date, as soon as those of all dates that are
            made together are published.
        clock: Gives the time; tests give it another.
    """

    stores: Stores
    tables: Collection[str] = tuple(each.table.name for each in DAILY_TABLES)
    on_made: Callable[[Mapping[date, BuiltPartition]], None] = lambda _made: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def pending_dates(self) -> list[date]:
        """Dates that are not built yet, or whose sessions have ended since they were."""
        ScheduledRebuilds(self.stores.ledger).wake(self.clock())
        return [
            each.session_date for each in RebuildQueue(self.stores.ledger).pending(self.clock())
        ]

    def run(
        self, dates: Iterable[date], progress: Progress | None = None
    ) -> list[DateBuilt | DateFailed]:
        """Build dates, oldest first; a failure is noted with its date."""
        progress, dates = progress or Silent(), sorted(dates)
        progress.begin("building dates", len(dates))
        results: list[DateBuilt | DateFailed] = []
        lists = plan_batches(self.stores, dates)
        # One more than cores: now and then one waits for the disk.
        at_once = max(1, min(sum(map(len, lists)), _cores() + 1, _MOST_AT_ONCE))
        empty = Batch(self.stores, (), self.clock(), self.tables)
        begin = partial(self._begin, empty, may_wait=True)
        try_begin = partial(self._begin, empty, may_wait=False)
        is_large = attrgetter("is_large")
        with closing(prefetch(lists, begin, try_begin, is_large, at_once)) as ahead:
            for several in ahead:
                with closing(_joined(several)) as begun:
                    results += self._finish(begun)
                progress.advance(len(begun.touched))
        return results

    def _begin(self, empty: Batch, group: DateGroup, *, may_wait: bool) -> "_Begun":
        """Take dates, which nobody else makes from now on: the older content must not come last.

        Then make the tables that need no other date.
        """
        # A date that is not large is one block to DuckDB: a second thread would only wait.
        begun = _Begun(replace(empty.only(group.days), is_small=not group.is_large))
        with ExitStack() as locks:
            for day in group.days:
                if error := self._lock(day, locks, may_wait=may_wait):
                    begun.made.append((self._selected()[0], day, error))
                # What lands from now on is for the next build: it is read before any row.
                begun.touched[day] = RebuildQueue(self.stores.ledger).get(day)
            begun.batch.now = self.clock()
            for daily in takewhile(attrgetter("alone"), self._selected()):
                batch = begun.batch.without(begun.failed())
                # Many are begun before the first is told of: their rows must not wait in memory.
                begun.made += [
                    (daily, day, made.glimpse() if isinstance(made, BuiltPartition) else made)
                    for day, made in make_partitions(daily, batch)
                ]
            begun.locks = locks.pop_all()
        return begun

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

    def _finish(self, begun: "_Begun") -> list[DateBuilt | DateFailed]:
        """Tell of what was made ahead, and make the other tables."""
        dates = {day: _Date(day, touched) for day, touched in begun.touched.items()}
        begun.batch.now = self.clock()
        # Table by table: what is told of one is looked up for all dates when the next one is.
        for daily in self._selected():
            self._note(dates, daily, begun.made_of(daily))
            if not daily.alone:
                batch = begun.batch.without(day for day, each in dates.items() if each.failed)
                made: dict[date, BuiltPartition | Exception] = {}
                try:
                    made.update(make_partitions(daily, batch))
                finally:  # an interrupted run tells of what it has published
                    self._note(dates, daily, made)
        return [
            each.failed or DateBuilt(each.day, each.rows, each.facts) for each in dates.values()
        ]

    def _note(
        self,
        dates: Mapping[date, "_Date"],
        daily: DailyTable,
        found: Mapping[date, BuiltPartition | Exception],
    ) -> None:
        """What has become of a table of some of the dates."""
        published = {day: made for day, made in found.items() if isinstance(made, BuiltPartition)}
        if published:
            self.on_made(published)
        for day, made in found.items():
            each = dates[day]
            if isinstance(made, Exception):
                each.failed = self._failed(day, daily, each.touched, made)
                continue
            each.rows[made.table.name] = made.row_count
            each.facts |= made.facts
            if each.touched is not None and daily is self._last_that_counts():
                self._settle(each.touched, each.rows)

    def _last_that_counts(self) -> DailyTable | None:
        """The last selected table that is part of the build of a date."""
        counting = [each for each in self._selected() if each not in AFTER_BUILD]
        return counting[-1] if counting else None

    def _settle(self, touched: QueuedDate, rows: Mapping[str, int]) -> None:
        """Note what the tables that were made are for their date, before others look at it."""
        day = touched.session_date
        if rows.keys() >= {each.table.name for each in OF_TELEMETRY}:
            RebuildQueue(self.stores.ledger).mark_built(day, touched.version)
        elif touched.parked:
            # Somebody mended one table of it: the others are worth another try.
            RebuildQueue(self.stores.ledger).revive(day)

    def _selected(self) -> list[DailyTable]:
        return [each for each in DAILY_TABLES if each.table.name in self.tables]

    def _failed(
        self, day: date, daily: DailyTable, touched: QueuedDate | None, error: Exception
    ) -> DateFailed:
        table = daily.table.name
        reason = f"{type(error).__name__}: {error}"
        broken = error.made if isinstance(error, CheckFailedError) else None
        noted = None
        if touched is not None and daily not in AFTER_BUILD:
            noted = RebuildQueue(self.stores.ledger).mark_failed(
                day, touched.version, reason, self.clock()
            )
        if noted is None:  # nobody waits for this date, or it got new data meanwhile
            return DateFailed(day, table, reason, broken)
        return DateFailed(day, table, reason, broken, noted.attempts, noted.parked)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _Begun:
    """Dates that are taken, as the ledger knew them before, and what was made of them ahead."""

    batch: Batch
    touched: dict[date, QueuedDate | None] = field(default_factory=dict)
    made: list[tuple[DailyTable, date, BuiltPartition | Exception]] = field(default_factory=list)
    locks: ExitStack = field(default_factory=ExitStack)

    def made_of(self, daily: DailyTable) -> dict[date, BuiltPartition | Exception]:
        """What was made of a table, or why it was not, by date."""
        return {day: made for table, day, made in self.made if table is daily}

    def failed(self) -> list[date]:
        """Dates that are not worked on any further."""
        return [day for _, day, made in self.made if isinstance(made, Exception)]

    def close(self) -> None:
        """Let others have the dates."""
        self.locks.close()


def _joined(several: Sequence[_Begun]) -> _Begun:
    """All of them as one, which lets go of all dates when it is closed."""
    joined = _Begun(several[0].batch.only([day for each in several for day in each.batch.days]))
    for each in several:
        joined.touched |= each.touched
        joined.made += each.made
        joined.locks.callback(each.close)
    return joined


@dataclass(slots=True)
class _Date:
    """A date that is being built: as the ledger knew it before, and what has become of it."""

    day: date
    touched: QueuedDate | None
    rows: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    failed: DateFailed | None = None


def note_failed_run(
    stores: Stores, first: date, last: date, began: datetime, reason: str, now: datetime
) -> list[QueuedDate]:
    """Count a run that died as an attempt of the dates it left undone; gives them as noted.

    A date that is built or parked, that the run itself noted as failed after ``began``, or that
    got new data since, is left as it is.
    """
    touched = RebuildQueue(stores.ledger)
    left = [
        each
        for each in touched.all()
        if first <= each.session_date <= last
        and not (each.is_built or each.parked)
        and (each.next_attempt_at is None or each.next_attempt_at <= began)
        and each.touched_at <= began
    ]
    noted = [touched.mark_failed(each.session_date, each.version, reason, now) for each in left]
    return [each for each in noted if each is not None]
