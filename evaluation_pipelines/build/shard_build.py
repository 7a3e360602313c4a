"""The first tables of some dates, shard by shard: what an engine runs for a build.

They read landed events of their own dates only. Their parts are written, but only the build makes
them current: a shard that is built twice, or killed, leaves files that nothing names.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import takewhile
from operator import attrgetter

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.engine.work import Work
from evaluation_pipelines.storage.buckets import Shard
from evaluation_pipelines.storage.daily_table import (
    Batch,
    BuiltPartition,
    DailyTable,
    make_partitions,
)
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.staging import StagingLake
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Stores, and the names of the tables that a build makes."""

    stores: Stores
    tables: Collection[str]

    def selected(self) -> list[DailyTable]:
        """Return the tables to build, each after those that it reads."""
        return [each for each in DAILY_TABLES if each.table.name in self.tables]


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


def build_shard(context: BuildContext, request: ShardRequest) -> BuiltShard:
    """Build the tables of a shard that read no other date."""
    staging = StagingLake(context.stores.lake, context.stores.ledger)
    stores = replace(context.stores, lake=staging)
    # A small date is one block for DuckDB: a second thread would only wait.
    small = not request.is_large
    whole = Batch(stores, request.days, request.now, context.tables, is_small=small)
    batch, failed = whole.of(request.shard), set[date]()
    results: dict[tuple[str, date], BuiltPartition | Exception] = {}
    for daily in takewhile(attrgetter("alone"), context.selected()):
        for day, result in make_partitions(daily, batch.without(failed)):
            if isinstance(result, Exception):
                failed.add(day)
                results[daily.table.name, day] = result
            else:
                # Only first rows are kept: many shards are built before the first is reported.
                results[daily.table.name, day] = result.only(daily.preview).first_rows()
    return BuiltShard(staging.staged(), results)


BUILD_SHARD = Work(build_shard, is_large=attrgetter("is_large"))
