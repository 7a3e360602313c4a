"""What the books of the days that were asked for last compare, in memory."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import date
from threading import Lock
from typing import TypeAlias

from fastapi.requests import HTTPConnection

from evaluation_pipelines.reporting.compared_tables import COMPARED, ComparedTables
from evaluation_pipelines.storage.stores import Stores

_MOST_DAYS = 8
"""Days that are kept: a day of 100 000 sessions takes some 60 MB."""

BUILD_PATIENCE_S = 3.0
"""Seconds that an answer waits for a day that is being built."""

_Files: TypeAlias = tuple[str, ...]


class ComparedDays:
    """Compared tables of days; threads may share one.

    The books themselves are made for each request: they depend on the ledger, too.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[date, tuple[_Files, ComparedTables]] = OrderedDict()

    def read(self, stores: Stores, days: Sequence[date]) -> Mapping[date, ComparedTables]:
        """Return the tables of days; as ``ComparedTables.read``."""
        return {day: self._of(stores, day) for day in days}

    def _of(self, stores: Stores, day: date) -> ComparedTables:
        # Before the tables: files that come after it are read once more the next time.
        files = tuple(part.path for table in COMPARED for part in stores.lake.parts(table, [day]))
        with self._lock:
            known_files, tables = self._known.get(day, (None, None))
        if tables is None or known_files != files:
            tables = ComparedTables.read(stores, [day])[day]
        with self._lock:
            self._known[day] = (files, tables)
            self._known.move_to_end(day)
            while len(self._known) > _MOST_DAYS:
                self._known.popitem(last=False)
        return tables


def compared_days_of(connection: HTTPConnection) -> ComparedDays:
    """Return the compared tables of the service of a request."""
    days: ComparedDays = connection.app.state.compared_days
    return days
