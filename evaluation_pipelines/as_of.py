"""Stores as of a past time, so that every report can be repeated as it was then.

As of a time has the same meaning for every report. Sessions, their performance and their tool
reports are computed from the telemetry that had *happened* by then. Cards, judge scores,
overrides, audit samples and profile versions count from the time they
were *created*. The effective score follows from these by the usual function, and a session has
ended or not as of that time. ``docs/analysts.md`` lists what is not kept and cannot be repeated.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.store import open_store
from evaluation_pipelines.storage.stores import Stores, read_stores


def as_of(stores: Stores, then: datetime) -> Stores:
    """Return the stores as of the time ``then``, for reading only."""
    from evaluation_pipelines.past_lake import PastLake  # slow to import, and rarely needed

    return PastLake(stores, then).stores


@contextmanager
def read_stores_as_of(settings: Settings, then: datetime | None) -> Iterator[Stores]:
    """Open the stores for reading, as of the time ``then`` unless it is ``None``.

    Raises:
        NoLedgerError: Nothing was ever ingested.
        LedgerError: The ledger cannot be used.
    """
    with read_stores(settings) as stores:
        yield stores if then is None else as_of(stores, then)


@contextmanager
def read_lake_as_of(settings: Settings, then: datetime | None) -> Iterator[Lake]:
    """Open the lake for reading, as of the time ``then``, or as it is now if that is ``None``.

    Without a ledger nothing was ever written: the present lake is then empty. Raises the errors of
    ``read_stores_as_of``.
    """
    with ExitStack() as opened:
        try:
            yield opened.enter_context(read_stores_as_of(settings, then)).lake.snapshot()
        except NoLedgerError:
            if then is not None:
                raise
            yield Lake(open_store(settings.lake_dir), None)
