"""Daily table of the books, and the books of one day on request."""

from datetime import date, datetime

from evaluation_pipelines.reporting.domain.reconciliation.day import DayBooks
from evaluation_pipelines.reporting.domain.reconciliation.equations import books_balance
from evaluation_pipelines.reporting.reconciliation.day import day_books
from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.schemas.checks import keys_are_unique
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stores import Stores

CHECKS = (keys_are_unique, books_balance)


def evaluation_books(stores: Stores, day: date, now: datetime) -> BuiltPartition:
    """Return the books of a date as a partition of their table."""
    books, table = day_books(stores, day, now), EVALUATION_BOOKS
    return BuiltPartition(
        table,
        books.sessions,
        (keys_are_unique(books.sessions, table), books_balance(books.equations)),
        {f"sessions {state}": number for state, number in books.states.items()},
        shown=books.shown(),
    )


def settled_books(stores: Stores, day: date, now: datetime) -> DayBooks:
    """Return the books of a day while it is not being built.

    Raises:
        LakeError: a table cannot be read, or another process builds the day for too long.
        ProfileError: an evaluation names a profile that the ledger does not know.
        LedgerError: the ledger cannot be used.
    """
    path = stores.lake.locks / f"build-{day}.lock"
    try:
        with file_lock(path, stores.settings.lease_seconds):
            return day_books(stores, day, now)
    except LockTimeoutError as error:
        raise LakeError(f"{day} is being built: {error}") from error
