"""Build of the daily tables and publication of judge scores, with a result for each date.

No date depends on another one. They are built in batches, table by table: one statement over
several dates takes far less time than one statement per date. A limit on memory decides how many
dates are built together. Workers of the engine build the first tables, which are the large ones.

Judge scores that only the ledger has are published as a daily table of their own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import attrgetter

import polars as pl

from evaluation_pipelines.build.daily_tables import AFTER_BUILD, DAILY_TABLES, TELEMETRY_TABLES
from evaluation_pipelines.build.started_dates import (
    BuildContext,
    DateStarter,
    StagingLake,
    StartedDates,
    shards_of,
)
from evaluation_pipelines.engine import open_engine
from evaluation_pipelines.judging.find_due import find_due_in_lake
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.run import utc_now
from evaluation_pipelines.outcomes.table import write_late
from evaluation_pipelines.progress import Progress, Silent, note_progress
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.daily_table import (
    Batch,
    BuiltPartition,
    CheckFailedError,
    DailyTable,
    announced,
    make_partitions,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.lock import Hold, LockLostError
from evaluation_pipelines.storage.parts import ALL_BUCKETS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.late_parents import file_late_if_free
from evaluation_pipelines.times import to_us


class NotAnnouncedError(Exception):
    """The tables of a date have become current, but events about one were not recorded."""


@dataclass(frozen=True, slots=True)
class DateBuilt:
    """A date whose tables were all built: row counts by table, and other counts by name."""

    session_date: date
    rows: dict[str, int]
    facts: dict[str, int]


@dataclass(frozen=True, slots=True)
class DateFailed:
    """A date that could not be built, with the table and the error.

    With ``is_current`` its tables were built, but not all events about ``table`` were recorded: the
    next attempt records them. ``broken`` is the partition that failed a check, if that was the
    error. ``attempts`` is the number of failures so far; a ``parked`` date is not retried
    automatically.
    """

    session_date: date
    table: str
    error: str
    broken: BuiltPartition | None = None
    attempts: int = 0
    parked: bool = False
    is_current: bool = False

    def __str__(self) -> str:
        if self.is_current:
            return f"{self.session_date}: {self.error}"
        return f"{self.session_date}: {self.table} was not built: {self.error}"


@dataclass(frozen=True, slots=True)
class Build:
    """Builder of the daily tables from the landed parts in the ledger.

    Args:
        stores: Lake, ledger and settings.
        tables: Names of the tables to build; the others are read as they are.
        on_published: Called with the partitions of one table, by date, after those of all dates
            that are built together have become current.
        clock: Returns the current time.
        only_due: Skip dates that another process has built since they were requested.
    """

    stores: Stores
    tables: Collection[str] = tuple(table.table.name for table in DAILY_TABLES)
    on_published: Callable[[Mapping[date, BuiltPartition]], None] = lambda _published: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    only_due: bool = False

    def pending_dates(self) -> list[date]:
        """Return the dates with unbuilt data, or whose sessions have ended since the last build.

        Outcomes that have come since are written, which needs no build.
        """
        write_late(self.stores)
        ScheduledRebuilds(self.stores.ledger).wake(self.clock())
        return [
            queued_date.session_date
            for queued_date in RebuildQueue(self.stores.ledger).pending(self.clock())
        ]

    def run(
        self, dates: Iterable[date], progress: Progress | None = None
    ) -> list[DateBuilt | DateFailed]:
        """Build dates; return results in date order, failed dates with their error."""
        progress, dates = progress or Silent(), sorted(dates)
        progress.begin("building dates", len(dates))
        results: list[DateBuilt | DateFailed] = []
        staging = StagingLake(self.stores.lake, self.stores.ledger)
        empty = Batch(replace(self.stores, lake=staging), (), self.clock(), self.tables)
        with open_engine(self.stores.settings.engine, self.stores.settings.ledger_url) as engine:
            starter = DateStarter(self._context, empty, self.clock, engine, self.only_due)
            with closing(starter.started(dates)) as started_dates:
                for started_date in started_dates:
                    with closing(started_date) as started:
                        staging.switch(started.parts)
                        results += self._finish(started, staging)
                    progress.advance(len(started.queued))
        file_late_if_free(self.stores, self.clock)
        sweep_superseded(self.stores, self.clock())
        kept = timedelta(days=self.stores.settings.events_kept_days)
        ServiceEvents(self.stores.ledger).sweep(self.clock() - kept)
        return sorted(results, key=attrgetter("session_date"))

    def _finish(self, started: StartedDates, staging: StagingLake) -> list[DateBuilt | DateFailed]:
        """Build the tables that the engine has not built, and make those of each date current.

        All tables of a date become current together, or none. Tables that are built after a date
        counts as built follow together.
        """
        dates = {
            day: _DateProgress(day, queued, started.holds.get(day))
            for day, queued in started.queued.items()
        }
        started.batch.now = self.clock()
        after = [table for table in self._selected() if table in AFTER_BUILD]
        counted = [table for table in self._selected() if table not in AFTER_BUILD]
        for tables in (counted, after):
            self._make(tables, started, dates)
            self._publish(tables, dates, staging)
            if tables is counted:
                self._update_queue(dates.values())
        return [
            progress.failed or DateBuilt(progress.day, progress.rows, progress.facts)
            for progress in dates.values()
        ]

    def _make(
        self,
        tables: Sequence[DailyTable],
        started: StartedDates,
        dates: Mapping[date, "_DateProgress"],
    ) -> None:
        """Stage the tables that the engine has not built, and record each result.

        Consecutive tables of one kind are built shard by shard, or all from whole dates.
        """
        for daily in tables:
            for day, result in started.built_of(daily).items():
                self._record(dates[day], daily, result)
        left = (table for table in tables if not table.alone)
        for by_shard, group in groupby(left, key=attrgetter("by_shard")):
            alike = list(group)
            for shard in (
                shards_of(self._context, started.batch.days) if by_shard else [ALL_BUCKETS]
            ):
                of_shard = started.batch.of(shard)
                for daily in alike:
                    batch = of_shard.without(
                        day for day, progress in dates.items() if progress.failed
                    )
                    for day, result in make_partitions(daily, batch):
                        self._record(dates[day], daily, result)

    def _record(
        self, progress: "_DateProgress", daily: DailyTable, result: BuiltPartition | Exception
    ) -> None:
        """Record the result of a shard of a date."""
        note_progress()
        name = daily.table.name
        if isinstance(result, Exception):
            progress.failed = self._failed(progress.day, daily, progress.queued, result)
        else:
            before = progress.staged.get(name)
            # Only `announce` needs all columns: those of all shards would take much memory.
            made = result.only(daily.preview) if daily.is_large else result
            progress.staged[name] = before.joined(made) if before else made

    def _publish(
        self,
        tables: Sequence[DailyTable],
        dates: Mapping[date, "_DateProgress"],
        staging: StagingLake,
    ) -> None:
        """Make the staged tables current, date by date, and report them table by table.

        The report of a table looks up the versions of its inputs for all dates.
        """
        published: dict[str, dict[date, BuiltPartition]] = {
            table.table.name: {} for table in tables
        }
        try:
            for day, progress in dates.items():
                for name, built in self._commit(tables, progress, staging).items():
                    published[name][day] = built
        finally:  # an interrupted run reports what it has published
            for partitions in filter(None, published.values()):
                self.on_published(partitions)

    def _commit(
        self, tables: Sequence[DailyTable], progress: "_DateProgress", staging: StagingLake
    ) -> dict[str, BuiltPartition]:
        """Make the staged tables of a date current; return them, or nothing if it has failed."""
        day, staged = progress.day, progress.staged
        if progress.failed or not staged:
            staging.discard(day)
            return {}
        try:
            staging.commit(day, progress.hold)
        except Exception as error:  # noqa: BLE001 - one date must not stop the others
            staging.forget(day)
            progress.failed = self._failed(day, tables[-1], progress.queued, error)
            return {}
        for daily in tables:
            self._announce(daily, progress)
        progress.take_published()
        return staged

    def _announce(self, daily: DailyTable, progress: "_DateProgress") -> None:
        """Record events about a table that has become current."""
        name = daily.table.name
        try:
            built = announced(daily, self.stores, progress.day, progress.staged[name], self.clock())
        except Exception as error:  # noqa: BLE001 - one date must not stop the others
            lost = NotAnnouncedError(
                f"{name} is current, but its events were not recorded: {error}"
            )
            lost.__cause__ = error
            progress.failed = self._failed(progress.day, daily, progress.queued, lost)
        else:
            progress.staged[name] = built

    def _update_queue(self, dates: Iterable["_DateProgress"]) -> None:
        """Mark dates as built once all their telemetry tables are, before later tables."""
        queue = RebuildQueue(self.stores.ledger)
        for progress in dates:
            if progress.queued is None or progress.failed or not progress.rows:
                continue
            if progress.rows.keys() >= {daily.table.name for daily in TELEMETRY_TABLES}:
                queue.mark_built(progress.day, progress.queued.version)
            elif progress.queued.parked:
                # One of its tables was built again, so the others may also succeed.
                queue.revive(progress.day)

    @property
    def _context(self) -> BuildContext:
        return BuildContext(self.stores, self.tables)

    def _selected(self) -> list[DailyTable]:
        return self._context.selected()

    def _failed(
        self, day: date, daily: DailyTable, queued: QueuedDate | None, error: Exception
    ) -> DateFailed:
        table = daily.table.name
        reason = f"{type(error).__name__}: {error}"
        broken = error.made if isinstance(error, CheckFailedError) else None
        is_current = isinstance(error, NotAnnouncedError)
        updated = None
        # A lost lock, for example after a server restart, is not the date's fault.
        is_at_fault = not isinstance(error, LockLostError)
        if queued is not None and daily not in AFTER_BUILD and is_at_fault:
            updated = RebuildQueue(self.stores.ledger).mark_failed(
                day, queued.version, reason, self.clock()
            )
        if updated is None:  # the date is not in the queue, or has newer data by now
            return DateFailed(day, table, reason, broken, is_current=is_current)
        return DateFailed(
            day, table, reason, broken, updated.attempts, updated.parked, is_current=is_current
        )


@dataclass(slots=True)
class _DateProgress:
    """A date during its build: its entry in the rebuild queue, its lock, and results so far."""

    day: date
    queued: QueuedDate | None
    hold: Hold | None
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


_NEWEST_FIRST = ("completed_at", "started_at", "scored_at")


def unpublished_dates(stores: Stores, days: Collection[date] | None = None) -> set[date]:
    """Return the dates with scores in the ledger that the lake does not have.

    Args:
        stores: Lake and ledger.
        days: Dates to compare; all if ``None``.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    changes = ScoreStore(stores.ledger).newest_changes()
    return {
        day
        for day, change in changes.items()
        if (days is None or day in days) and change != _published_change(stores, day)
    }


def publish_scores(
    stores: Stores,
    days: Collection[date],
    on_published: Callable[[Mapping[date, BuiltPartition]], None] = lambda _published: None,
    clock: Callable[[], datetime] = utc_now,
    held_for: timedelta | None = None,
) -> list[DateFailed]:
    """Write ``judge_scores`` of some dates, and add dates with new scores to the rebuild queue.

    The dates are queued last, so that a rebuild finds the new scores.

    Args:
        stores: Lake and ledger.
        days: Session dates to write.
        on_published: As in ``Build``.
        clock: Returns the current time.
        held_for: Time during which the queued dates are left to the caller to build. If the
            caller dies, the sensor builds them afterwards. ``None`` makes them due immediately.

    Returns:
        The dates that could not be written.
    """
    changed = unpublished_dates(stores, days)
    outcome = Build(stores, [JUDGE_SCORES.name], on_published, clock).run(days)
    failed = [result for result in outcome if isinstance(result, DateFailed)]
    now = clock()
    held_until = None if held_for is None else now + held_for
    RebuildQueue(stores.ledger).touch(
        changed - {result.session_date for result in failed}, now, held_until
    )
    return failed


def _published_change(stores: Stores, day: date) -> tuple[int, int | None]:
    """Return the number of published scorings of a date and the newest change of them."""
    try:
        rows = stores.lake.read(JUDGE_SCORES, [day], _NEWEST_FIRST)
    except LakeError:
        return -1, None  # damaged: the ledger has all scores, and the file is written again
    newest = rows.select(pl.coalesce(*_NEWEST_FIRST).max()).item()
    return rows.height, None if newest is None else to_us(newest)


def night_dates(
    stores: Stores,
    now: datetime,
    last_done: date | None,
    is_requestable: Callable[[date], bool],
) -> tuple[date, date] | None:
    """Return the first and last session date of a nightly run.

    The range goes back to the last date of the last nightly run that succeeded, however long ago,
    and to the oldest date with sessions to judge or with unpublished scores.

    Args:
        stores: Lake, ledger and settings.
        now: Time of the run.
        last_done: Last date of the last nightly run that succeeded; ``None`` before the first.
        is_requestable: True for a date that a run can be requested for.

    Returns:
        The dates, or ``None`` if there are no sessions.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
        JudgeNotReadyError: As for ``load_plans``.
    """
    known = list(filter(is_requestable, stores.lake.partitions(AGENT_SESSIONS)))
    if not known:
        return None
    days = {day for day in known if last_done is None or day >= last_done} or {known[-1]}
    # A killed run may have judged sessions without publishing their scores.
    days |= set(filter(is_requestable, unpublished_dates(stores)))
    if stores.settings.why_no_judge is None:
        days |= find_due_in_lake(stores, now, None, is_requestable).days
    return min(days), max(days)
