"""Build partitions of a table date by date."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.schemas.scorecards import Announced
from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.schemas.table import CheckResult
from evaluation_pipelines.storage.parts import Shard
from evaluation_pipelines.storage.stores import Stores

_PREVIEW_ROWS = 8
ANY_ERROR = (Exception, pl.exceptions.PanicException)
"""One broken date must not stop the others; a panic of Polars is not an Exception."""


@dataclass(frozen=True, slots=True)
class BuiltPartition:
    """One partition of a table, with results of its checks.

    Attributes:
        table: The table.
        frame: The rows, or the first of them.
        checks: Results of the table's checks.
        facts: Counts to log, by name.
        parts: For a table with several files per partition: files to replace, by name.
        announced: Events recorded when the partition was published.
        shown: Small tables that explain the partition, by name.
        total_rows: Number of rows if ``frame`` has only the first of them.
    """

    table: Table
    frame: pl.DataFrame
    checks: tuple[CheckResult, ...]
    facts: dict[str, int] = field(default_factory=dict)
    parts: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    announced: Announced = field(default_factory=Announced)
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    total_rows: int | None = None

    @property
    def row_count(self) -> int:
        """Number of rows of the partition."""
        return self.frame.height if self.total_rows is None else self.total_rows

    def joined(self, other: "BuiltPartition") -> "BuiltPartition":
        """Return the partition of both shards, with the rows of both if they have all of them."""
        sums = {
            name: self.facts.get(name, 0) + other.facts.get(name, 0)
            for name in {**self.facts, **other.facts}
        }
        checks = tuple(
            first.joined(second) for first, second in zip(self.checks, other.checks, strict=True)
        )
        total = self.row_count + other.row_count
        has_all = self.total_rows is None and other.total_rows is None
        frame = pl.concat([self.frame, other.frame]) if has_all else self.frame
        total_rows = None if has_all else total
        return replace(
            self, frame=frame, checks=checks, facts=sums, parts={}, total_rows=total_rows
        )

    def only(self, columns: Sequence[str]) -> "BuiltPartition":
        """Return the partition with some columns of its rows, without its files."""
        return replace(self, frame=self.frame.select(columns), parts={})

    def first_rows(self) -> "BuiltPartition":
        """Return the partition with a copy of its first rows only, without its files."""
        first = self.frame.head(_PREVIEW_ROWS)
        # A slice would keep the whole frame in memory.
        copied = pl.DataFrame(first.rows(), first.schema, orient="row")
        return replace(self, frame=copied, parts={}, total_rows=self.row_count)


@dataclass(slots=True)
class Batch:
    """Dates whose tables are built together, and what one table passes to the next.

    A statement over ten dates is much faster than ten statements; results never depend on which
    dates are built together.
    ``tables`` are the names of the tables to build. With ``is_small`` queries use one thread.
    ``tool_calls`` are those of the dates, computed together with session windows and passed to
    tool reports. ``evidence`` is the input of scorecards and effective scores.
    """

    stores: Stores
    days: Sequence[date]
    now: datetime
    tables: Collection[str] = ()
    is_small: bool = False
    tool_calls: ToolCalls | None = None
    evidence: pl.DataFrame | None = None

    def of(self, shard: Shard) -> "Batch":
        """Return the batch with the sessions of a shard, without what was passed on for all."""
        stores = replace(self.stores, lake=self.stores.lake.of(shard))
        return replace(self, stores=stores, tool_calls=None, evidence=None)

    def without(self, days: Iterable[date]) -> "Batch":
        """Return the batch without some of its dates; itself if there are none."""
        left_out = set(days)
        if not left_out:
            return self
        return self.only([day for day in self.days if day not in left_out])

    def only(self, days: Sequence[date]) -> "Batch":
        """Return a batch of some of its dates, without what was passed on for all of them."""
        return replace(self, days=days, tool_calls=None, evidence=None)


class CheckFailedError(Exception):
    """A partition failed a check and was not written; the previous one stays."""

    def __init__(self, made: BuiltPartition) -> None:
        broken = [check for check in made.checks if not check.passed and check.severity == "error"]
        super().__init__(
            "; ".join(
                f"{result.table}: {result.rule}: expected {result.expected}, found {result.found}"
                for result in broken
            )
        )
        self.made = made

    def __reduce__(self) -> tuple[type["CheckFailedError"], tuple[BuiltPartition]]:
        return type(self), (self.made,)


@dataclass(frozen=True, slots=True)
class DailyTable:
    """How one table is built, and its checks.

    ``make`` returns a partition for each date of a batch. A table that is ``alone`` reads only
    landed events, so workers of the engine build it; then only its first rows are logged.
    ``upstream`` has the assets it is made from, ``preview`` the columns for a first look: those
    that are reported.
    ``code_version`` changes with its SQL or formula: the interface then marks older dates.
    A table with an ``own_step`` is a separate asset: new telemetry alone does not rebuild it.
    A table that is not built ``by_shard`` is built from all sessions of a date at once.
    ``announce`` is called after a partition has become current, to record events for other systems.
    """

    table: Table
    make: Callable[[Batch], Mapping[date, BuiltPartition]]
    checks: tuple[Callable[..., CheckResult], ...]
    group: str
    engine: str
    upstream: tuple[str, ...]
    preview: tuple[str, ...]
    code_version: str
    announce: Callable[[Stores, date, BuiltPartition, datetime], Announced] | None = None
    own_step: bool = False
    alone: bool = False
    by_shard: bool = True

    @property
    def is_large(self) -> bool:
        """True if only its preview is reported: no other column is needed after it was written."""
        return self.by_shard and self.announce is None

    def check_descriptions(self) -> dict[str, str]:
        """Return the name of each check and what it says."""
        return {check.__name__: (check.__doc__ or "").partition("\n")[0] for check in self.checks}


def make_partitions(
    daily: DailyTable, batch: Batch
) -> Iterator[tuple[date, BuiltPartition | Exception]]:
    """Build and stage partitions of one table; yield each partition or its error.

    Errors are CheckFailedError (a check failed), LakeError (an input cannot be read, or the result
    not be written), QueryError (the SQL failed) or any other: nothing of that date was written, and
    other dates are not affected.
    """
    try:
        made = daily.make(batch) if batch.days else {}
    except ANY_ERROR as error:
        if len(batch.days) == 1:
            yield batch.days[0], as_exception(error)
        else:  # build each date separately to find the one at fault
            for day in batch.days:
                yield from make_partitions(daily, batch.only([day]))
        return
    for day in batch.days:
        try:
            yield day, _staged(daily, batch.stores, day, made[day])
        except ANY_ERROR as error:
            yield day, as_exception(error)


def as_exception(error: BaseException) -> Exception:
    """Return an error that can be recorded with its date."""
    return error if isinstance(error, Exception) else RuntimeError(f"Polars panicked: {error}")


def _staged(daily: DailyTable, stores: Stores, day: date, made: BuiltPartition) -> BuiltPartition:
    if any(not check.passed and check.severity == "error" for check in made.checks):
        raise CheckFailedError(made)
    if daily.table.several_files:
        for name, rows in made.parts.items():
            stores.lake.write_slot(rows, daily.table, day, name)
    else:
        stores.lake.write(made.frame, daily.table, day)
    return made


def announced(
    daily: DailyTable, stores: Stores, day: date, made: BuiltPartition, now: datetime
) -> BuiltPartition:
    """Call ``announce`` of a table for a partition that has become current."""
    if daily.announce is None:
        return made
    return replace(made, announced=daily.announce(stores, day, made, now))
