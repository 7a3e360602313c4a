"""What the books of the days that are asked for compare, in memory."""

from collections.abc import Mapping, Sequence
from datetime import date
from threading import Lock

from fastapi.requests import HTTPConnection

from evaluation_pipelines.reporting.compared_tables import COMPARED, ComparedTables
from evaluation_pipelines.service.date_cache import DateCache
from evaluation_pipelines.storage.stores import Stores

_MOST_DAYS = 8
"""Days that are kept: a day of 100 000 sessions takes some 60 MB."""


class ComparedDays:
    """Compared tables of days; threads may share one.

    The books themselves are made for each request: they depend on the ledger, too.
    """

    def __init__(self, stores: Stores) -> None:
        self._lock = Lock()
        self._cache = DateCache(
            COMPARED, lambda _lake, day: ComparedTables.read(stores, [day])[day], _MOST_DAYS
        )

    def read(self, stores: Stores, days: Sequence[date]) -> Mapping[date, ComparedTables]:
        """Return the tables of days; as ``ComparedTables.read``."""
        with self._lock:
            known = self._cache.by_date(stores.lake, days)
        missing = [day for day in days if day not in known]
        return known | (ComparedTables.read(stores, missing) if missing else {})


def compared_days_of(connection: HTTPConnection) -> ComparedDays:
    """Return the compared tables of the service of a request."""
    days: ComparedDays = connection.app.state.compared_days
    return days
