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
    """

    def __init__(self, tables: Sequence[Table], read: Callable[[Lake, date], _Read]) -> None:
        self._tables, self._read = tables, read
        self._current = OfVersion(self._files)
        self._known: dict[date, tuple[_Files, _Read]] = {}

    def is_current(self, lake: Lake) -> bool:
        """Return whether all dates were read, and no manifest names other files for them."""
        return {day: files for day, (files, _) in self._known.items()} == self._current.of(lake)

    def values(self, lake: Lake, days: Collection[date] | None = None) -> list[_Read]:
        """Return the values of some dates, or of all; read those that have other files than before.

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
        return [self._known[day][1] for day in wanted]

    def _files(self, lake: Lake) -> dict[date, _Files]:
        found: dict[date, list[str]] = defaultdict(list)
        dates = set(lake.partitions(self._tables[0]))
        for table in self._tables:
            for part in lake.parts(table):
                if part.session_date in dates:
                    found[part.session_date].append(part.path)
        return {day: tuple(paths) for day, paths in found.items()}
