"""How many sessions of each day are in which state of the books, in memory."""

from collections.abc import Collection
from datetime import date
from threading import Lock

import polars as pl
from fastapi.requests import HTTPConnection

from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.service.date_cache import DateCache
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_COUNTED = ("session_date", "organization_id", "state")


class BookTable:
    """Counts of all books; threads may share one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._cache = DateCache((EVALUATION_BOOKS,), _read)

    def counts(self, days: Collection[date], organization: str | None = None) -> pl.DataFrame:
        """Return ``session_date``, ``organization_id``, ``state`` and ``sessions``.

        Args:
            days: The days.
            organization: One organization; ``None`` for all.

        Raises:
            LakeError: A file cannot be read.
        """
        with self._lock:
            found = self._cache.values(self._stores.lake, days)
        counts = pl.concat([_counted(EVALUATION_BOOKS.no_rows), *found])
        return counts if organization is None else counts.filter(organization_id=organization)


def book_table_of(connection: HTTPConnection) -> BookTable:
    """Return the books of the service of a request."""
    table: BookTable = connection.app.state.book_table
    return table


def _read(lake: Lake, day: date) -> pl.DataFrame:
    return _counted(lake.read(EVALUATION_BOOKS, [day], _COUNTED))


def _counted(books: pl.DataFrame) -> pl.DataFrame:
    return books.group_by(_COUNTED).agg(sessions=pl.len().cast(pl.Int64))
