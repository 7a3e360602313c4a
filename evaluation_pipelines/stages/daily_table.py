"""How one partition of a table that is made date by date comes about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.domain.quality import RuleResult
from evaluation_pipelines.domain.schemas import Table
from evaluation_pipelines.domain.scorecards.announcements import Announcement
from evaluation_pipelines.stages.stores import Stores


@dataclass(frozen=True, slots=True)
class Made:
    """One partition: its rows, what is worth knowing about it, and the rules it was held to.

    Of a table with several files a partition, ``parts`` are those to be replaced, by name; the
    others stay as they are. ``news`` is what was announced when it was published. ``shown`` are
    small tables that explain the partition, by name.
    """

    table: Table
    frame: pl.DataFrame
    rules: tuple[RuleResult, ...]
    facts: dict[str, int] = field(default_factory=dict)
    parts: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    news: tuple[Announcement, ...] = ()
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)


class RuleBrokenError(Exception):
    """A partition breaks a rule and was not written; the one before, if any, stays."""

    def __init__(self, made: Made) -> None:
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
    """How one table is made for a date, and the rules it is held to.

    ``upstream`` names the assets it is made from, ``preview`` the columns worth a first look.
    ``code_version`` grows with its SQL or formula: the interface then shows dates from before.
    A table with an ``own_step`` is an asset with a function of its own in the code location: new
    telemetry alone does not make it anew.
    ``announce`` tells other systems what is new in a partition, after it was published.
    """

    table: Table
    make: Callable[[Stores, date, datetime], Made]
    rules: tuple[Callable[..., RuleResult], ...]
    group: str
    engine: str
    upstream: tuple[str, ...]
    preview: tuple[str, ...]
    code_version: str
    announce: Callable[[Stores, date, Made, datetime], tuple[Announcement, ...]] | None = None
    own_step: bool = False

    def rule_descriptions(self) -> dict[str, str]:
        """Name of each rule -> what it says."""
        return {each.__name__: (each.__doc__ or "").partition("\n")[0] for each in self.rules}


def make_partition(daily: DailyTable, stores: Stores, day: date, now: datetime) -> Made:
    """Make one partition of one table and publish it.

    Raises:
        RuleBrokenError: it breaks a rule; nothing was written.
        LakeError: an input cannot be read, or the disk refuses the result.
        QueryError: the SQL failed.
    """
    made = daily.make(stores, day, now)
    if any(not each.passed and each.severity == "error" for each in made.rules):
        raise RuleBrokenError(made)
    if daily.table.several_files:
        for name, rows in made.parts.items():
            stores.lake.write_part(rows, daily.table, day, name)
    else:
        stores.lake.write(made.frame, daily.table, day)
    if daily.announce is None:
        return made
    return replace(made, news=daily.announce(stores, day, made, now))
