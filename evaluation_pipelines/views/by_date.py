"""What was read of the lake, kept in memory: a file never changes, so it is read once."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Generic, TypeAlias, TypeVar

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.manifest import Version

Files: TypeAlias = tuple[str, ...]
_Value = TypeVar("_Value")


class OfVersion(Generic[_Value]):
    """A value made from the newest version of the lake; its owner keeps threads apart.

    Reading the parts of a table takes milliseconds if there are hundreds of dates, and a page
    needs them many times.

    Args:
        make: Returns the value of a lake.
    """

    def __init__(self, make: Callable[[Lake], _Value]) -> None:
        self._make = make
        self._known: tuple[Version, _Value] | None = None

    def of(self, lake: Lake) -> _Value:
        """Return the value; raises what ``make`` raises."""
        version = lake.version()  # first: parts that come after it make another version
        if self._known is None or self._known[0] != version:
            self._known = version, self._make(lake)
        return self._known[1]


def files_by_date(lake: Lake, tables: Sequence[Table]) -> Mapping[date, Files]:
    """Return the files of each date that the first table has."""
    found: dict[date, list[str]] = defaultdict(list)
    dates = set(lake.partitions(tables[0]))
    for table in tables:
        for part in lake.parts(table):
            if part.session_date in dates:
                found[part.session_date].append(part.path)
    return {day: tuple(paths) for day, paths in found.items()}


class ByDate(Generic[_Value]):
    """Values of dates, each made of some tables; its owner keeps threads apart.

    Args:
        tables: The tables; the first one has all dates.
        read: Reads the value of a date.
    """

    def __init__(self, tables: Sequence[Table], read: Callable[[Lake, date], _Value]) -> None:
        self._read = read
        self._current = OfVersion(lambda lake: files_by_date(lake, tables))
        self._known: dict[date, tuple[Files, _Value]] = {}

    def values(self, lake: Lake, days: Collection[date] | None = None) -> list[_Value]:
        """Return the values of some dates, or of all; read those with other files than before.

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
