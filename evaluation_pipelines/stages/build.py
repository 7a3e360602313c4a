"""Build: all daily tables of some dates; a date that fails leaves the others alone.

Dates are built some at a time, table after table: a statement over several dates takes far less
than one for each. How many, their size decides: that bounds the memory, however long a backfill is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from evaluation_pipelines.adapters.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.daily_table import (
    DailyTable,
    Made,
    RuleBrokenError,
    make_partitions,
)
from evaluation_pipelines.stages.daily_tables import (
    AFTER_BUILD,
    DAILY_TABLES,
    OF_TELEMETRY,
)
from evaluation_pipelines.stages.progress import Progress, Silent
from evaluation_pipelines.stages.stores import Stores

_TOGETHER_BYTES = 8 * 1024 * 1024
_MOST_TOGETHER = 31
"""Dates that are built together have so many bytes of landed Parquet, and are no more than that."""


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
    broken: Made | None = None
    attempts: int = 0
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """Makes the daily tables from the landed parts that the ledger names.

    Args:
        stores: Where everything lies.
        tables: Names of the tables to make; the others are taken as they are.
        on_made: Told of every partition as soon as it is published.
        clock: Gives the time; tests give it another.
    """

    stores: Stores
    tables: Collection[str] = tuple(each.table.name for each in DAILY_TABLES)
    on_made: Callable[[date, Made], None] = lambda _day, _made: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def pending_dates(self) -> list[date]:
        """Dates that are not built yet, or whose sessions have ended since they were."""
        self.stores.ledger.waiting.wake(self.clock())
        return [each.session_date for each in self.stores.ledger.touched.pending(self.clock())]

    def run(
        self, dates: Iterable[date], progress: Progress | None = None
    ) -> list[DateBuilt | DateFailed]:
        """Build dates, oldest first; a failure is noted with its date."""
        progress, dates = progress or Silent(), sorted(dates)
        progress.begin("building dates", len(dates))
        results: list[DateBuilt | DateFailed] = []
        for together in self._together(dates):
            results += self._attempt(together)
            progress.advance(len(together))
        return results

    def _together(self, dates: Iterable[date]) -> Iterator[list[date]]:
        """The dates in groups of bounded size; a large date is one of its own."""
        group: list[date] = []
        group_bytes = 0
        for day in dates:
            parts = self.stores.ledger.parts.current(AGENT_EVENTS_LANDED.name, day)
            size_bytes = sum(part.size_bytes for part in parts)
            is_full = group_bytes + size_bytes > _TOGETHER_BYTES or len(group) == _MOST_TOGETHER
            if group and is_full:
                yield group
                group, group_bytes = [], 0
            group.append(day)
            group_bytes += size_bytes
        if group:
            yield group

    def _attempt(self, days: Sequence[date]) -> list[DateBuilt | DateFailed]:
        """Make dates while nobody else does: the older of two contents must not come last."""
        with ExitStack() as locks:
            begun = [self._begun(day, locks) for day in days]
            for daily in self._selected():
                self._make(daily, {each.day: each for each in begun if each.failed is None})
        return [each.failed or DateBuilt(each.day, each.rows, each.facts) for each in begun]

    def _begun(self, day: date, locks: ExitStack) -> "_Date":
        path = self.stores.lake.locks / f"build-{day}.lock"
        try:
            locks.enter_context(file_lock(path, self.stores.settings.lease_seconds))
        except (LockTimeoutError, OSError) as error:
            touched = self.stores.ledger.touched.get(day)
            failed = self._failed(day, self._selected()[0], touched, error)
            return _Date(day, touched, failed=failed)
        # What lands from now on is for the next build: the version is read before any row.
        return _Date(day, self.stores.ledger.touched.get(day))

    def _make(self, daily: DailyTable, dates: Mapping[date, "_Date"]) -> None:
        for day, made in make_partitions(daily, self.stores, list(dates), self.clock()):
            each = dates[day]
            if isinstance(made, Exception):
                each.failed = self._failed(day, daily, each.touched, made)
                continue
            self.on_made(day, made)
            each.rows[made.table.name] = made.frame.height
            each.facts |= made.facts
            if each.touched is not None and daily is self._last_that_counts():
                self._settle(each.touched, each.rows)

    def _last_that_counts(self) -> DailyTable | None:
        """The last selected table that is part of the build of a date."""
        counting = [each for each in self._selected() if each not in AFTER_BUILD]
        return counting[-1] if counting else None

    def _settle(self, touched: TouchedDate, rows: Mapping[str, int]) -> None:
        """Note what the tables that were made are for their date, before others look at it."""
        day = touched.session_date
        if rows.keys() >= {each.table.name for each in OF_TELEMETRY}:
            self.stores.ledger.touched.mark_built(day, touched.version)
        elif touched.parked:
            # Somebody mended one table of it: the others are worth another try.
            self.stores.ledger.touched.revive(day)

    def _selected(self) -> list[DailyTable]:
        return [each for each in DAILY_TABLES if each.table.name in self.tables]

    def _failed(
        self, day: date, daily: DailyTable, touched: TouchedDate | None, error: Exception
    ) -> DateFailed:
        table = daily.table.name
        reason = f"{type(error).__name__}: {error}"
        broken = error.made if isinstance(error, RuleBrokenError) else None
        noted = None
        if touched is not None and daily not in AFTER_BUILD:
            noted = self.stores.ledger.touched.mark_failed(
                day, touched.version, reason, self.clock()
            )
        if noted is None:  # nobody waits for this date, or it got new data meanwhile
            return DateFailed(day, table, reason, broken)
        return DateFailed(day, table, reason, broken, noted.attempts, noted.parked)


@dataclass(slots=True)
class _Date:
    """A date that is being built: as the ledger knew it before, and what has become of it."""

    day: date
    touched: TouchedDate | None
    rows: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    failed: DateFailed | None = None


def note_failed_run(
    stores: Stores, first: date, last: date, began: datetime, reason: str, now: datetime
) -> list[TouchedDate]:
    """Count a run that died as an attempt of the dates it left undone; gives them as noted.

    A date that is built or parked, that the run itself noted as failed after ``began``, or that
    got new data since, is left as it is.
    """
    touched = stores.ledger.touched
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
