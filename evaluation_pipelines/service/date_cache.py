"""What was read of each date: a file of the lake never changes, so it is read once."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Generic, TypeAlias, TypeVar

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.service.of_version import OfVersion
from evaluation_pipelines.storage.lake import Lake

_Files: TypeAlias = tuple[str, ...]
_Read = TypeVar("_Read")


class DateCache(Generic[_Read]):
    """Values of dates, each made of some tables; its owner keeps threads apart.

    Args:
        tables: The tables; the first says which dates there are.
        read: Reads the value of a date.
        most: Number of dates to keep in addition to those that are asked for; all by default.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        read: Callable[[Lake, date], _Read],
        most: int | None = None,
    ) -> None:
        self._tables, self._read, self._most = tables, read, most
        self._current = OfVersion(self._files)
        self._known: dict[date, tuple[_Files, _Read]] = {}

    def is_current(self, lake: Lake) -> bool:
        """Return whether all dates were read, and no manifest names other files for them."""
        return {day: files for day, (files, _) in self._known.items()} == self._current.of(lake)

    def values(self, lake: Lake, days: Collection[date] | None = None) -> list[_Read]:
        """Return the values of some dates, or of all; as ``by_date``."""
        return list(self.by_date(lake, days).values())

    def by_date(self, lake: Lake, days: Collection[date] | None = None) -> dict[date, _Read]:
        """Return the values of those dates, or of all, that the tables have.

        Dates that have other files than before are read.

        Raises:
            LakeError: A file cannot be read.
        """
        current = self._current.of(lake)
        for gone in self._known.keys() - current.keys():
            del self._known[gone]
        wanted = [day for day in current if days is None or day in days]
        for day in wanted:
            if day not in self._known or self._known[day][0] != current[day]:
                self._known[day] = (current[day], self._read(lake, day))
        found = {day: self._known[day][1] for day in wanted}
        self._forget_oldest(wanted)
        return found

    def _forget_oldest(self, wanted: Collection[date]) -> None:
        """Forget the dates that were read first, but for those that are wanted now."""
        others = [day for day in self._known if day not in wanted]
        surplus = 0 if self._most is None else max(len(others) - self._most, 0)
        for day in others[:surplus]:
            del self._known[day]

    def _files(self, lake: Lake) -> dict[date, _Files]:
        found: dict[date, list[str]] = defaultdict(list)
        dates = set(lake.partitions(self._tables[0]))
        for table in self._tables:
            for part in lake.parts(table):
                if part.session_date in dates:
                    found[part.session_date].append(part.path)
        return {day: tuple(paths) for day, paths in found.items()}
