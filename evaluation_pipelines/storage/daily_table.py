"""How the partitions of a table that is made date by date come about."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.schemas.announcement import Announcement
from evaluation_pipelines.schemas.checks import CheckResult
from evaluation_pipelines.storage.stores import Stores

_GLIMPSE_ROWS = 8


@dataclass(frozen=True, slots=True)
class BuiltPartition:
    """One partition: its rows, what is worth knowing about it, and the rules it was held to.

    Of a table with several files a partition, ``parts`` are those to be replaced, by name; the
    others stay as they are. ``news`` is what was announced when it was published. ``shown`` are
    small tables that explain the partition, by name. ``cut_from`` is the number of all rows when
    ``frame`` has only the first of them.
    """

    table: Table
    frame: pl.DataFrame
    rules: tuple[CheckResult, ...]
    facts: dict[str, int] = field(default_factory=dict)
    parts: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    news: tuple[Announcement, ...] = ()
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    cut_from: int | None = None

    @property
    def row_count(self) -> int:
        """Rows of the partition, whether or not they are all at hand."""
        return self.frame.height if self.cut_from is None else self.cut_from

    def glimpse(self) -> "BuiltPartition":
        """The same with a few rows: enough to tell of it when it is published."""
        first = self.frame.head(_GLIMPSE_ROWS)
        # A slice would keep the whole frame in memory.
        copied = pl.DataFrame(first.rows(), first.schema, orient="row")
        return replace(self, frame=copied, parts={}, cut_from=self.row_count)


@dataclass(slots=True)
class Batch:
    """Dates whose tables are made together, and what one table leaves for the next.

    A statement over ten dates takes far less than ten statements; no date ever depends on which
    others it is made with.
    ``tables`` are the names of those that are made, ``is_small`` says that there is little of
    them, so that a query takes one thread of many. ``tool_calls`` are TOOL_CALLS of the dates:
    they come from the same steps as session windows, so that these leave them for tool reports.
    ``evidence`` is what their cards are made from; effective scores are made from it, too.
    ``scores`` are those that the run has made so far, by date: percentiles rank among them.
    """

    stores: Stores
    days: Sequence[date]
    now: datetime
    tables: Collection[str] = ()
    is_small: bool = False
    tool_calls: pl.DataFrame | None = None
    scores: dict[date, pl.DataFrame] = field(default_factory=dict)
    evidence: pl.DataFrame | None = None

    def without(self, days: Iterable[date]) -> "Batch":
        """The batch without some of its dates; itself when there are none."""
        left_out = set(days)
        if not left_out:
            return self
        return self.only([day for day in self.days if day not in left_out])

    def only(self, days: Sequence[date]) -> "Batch":
        """Some of its dates; what was left for all of them together is for none."""
        return replace(self, days=days, tool_calls=None, evidence=None)


class CheckFailedError(Exception):
    """A partition breaks a rule and was not written; the one before, if any, stays."""

    def __init__(self, made: BuiltPartition) -> None:
        broken = [each for each in made.rules if not each.passed and each.severity == "error"]
        super().__init__(
            "; ".join(
                f"{each.table}: {each.rule}: expected {each.expected}, found {each.found}"
                for each in broken
            )
        )
        self.made = made


@dataclass(frozen=True, slots=True)
class DailyTable:
    """How one table is made for some dates, and the rules it is held to.

    ``make`` gives a partition for each date of a batch. One that is ``alone`` reads nothing of
    other dates but what landed: it can be made before the tables of earlier dates are. They come
    first, and only their first rows are at hand when they are told of.
    ``upstream`` names the assets it is made from, ``preview`` the columns worth a first look.
    ``code_version`` grows with its SQL or formula: the interface then shows dates from before.
    A table with an ``own_step`` is an asset with a function of its own in the code location: new
    telemetry alone does not make it anew.
    ``announce`` tells other systems what is new in a partition, after it was published.
    """

    table: Table
    make: Callable[[Batch], Mapping[date, BuiltPartition]]
    rules: tuple[Callable[..., CheckResult], ...]
    group: str
    engine: str
    upstream: tuple[str, ...]
    preview: tuple[str, ...]
    code_version: str
    announce: (
        Callable[[Stores, date, BuiltPartition, datetime], tuple[Announcement, ...]] | None
    ) = None
    own_step: bool = False
    alone: bool = False

    def rule_descriptions(self) -> dict[str, str]:
        """Name of each rule -> what it says."""
        return {each.__name__: (each.__doc__ or "").partition("\n")[0] for each in self.rules}


def date_by_date(
    make: Callable[[Stores, date, datetime], BuiltPartition],
) -> Callable[[Batch], Mapping[date, BuiltPartition]]:
    """A function that makes one partition, as one that makes several."""
    return lambda batch: {day: make(batch.stores, day, batch.now) for day in batch.days}


def make_partitions(
    daily: DailyTable, batch: Batch
) -> Iterator[tuple[date, BuiltPartition | Exception]]:
    """Make some partitions of one table and publish them, or tell why one could not be.

    The errors are CheckFailedError (it breaks a rule), LakeError (an input cannot be read, or the
    disk refuses the result), QueryError (the SQL failed) or whatever else went wrong: nothing of
    that date was written, the others are as if it were not there.
    """
    try:
        made = daily.make(batch) if batch.days else {}
    except Exception as error:  # noqa: BLE001 - one broken date must not stop the others
        if len(batch.days) == 1:
            yield batch.days[0], error
        else:  # which of them it was shows when each is made by itself
            for day in batch.days:
                yield from make_partitions(daily, batch.only([day]))
        return
    for day in batch.days:
        try:
            yield day, _published(daily, batch.stores, day, made[day], batch.now)
        except Exception as error:  # noqa: BLE001
            yield day, error


def _published(
    daily: DailyTable, stores: Stores, day: date, made: BuiltPartition, now: datetime
) -> BuiltPartition:
    if any(not each.passed and each.severity == "error" for each in made.rules):
        raise CheckFailedError(made)
    if daily.table.several_files:
        for name, rows in made.parts.items():
            stores.lake.write_part(rows, daily.table, day, name)
    else:
        stores.lake.write(made.frame, daily.table, day)
    if daily.announce is None:
        return made
    return replace(made, news=daily.announce(stores, day, made, now))
