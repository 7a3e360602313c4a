"""The stores of one installation, opened together."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.landing import Landing
from evaluation_pipelines.adapters.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class Stores:
    """Landing folder, lake and ledger as the settings name them."""

    settings: Settings
    landing: Landing
    lake: Lake
    ledger: Ledger


@contextmanager
def open_stores(settings: Settings) -> Iterator[Stores]:
    """Open the stores; the ledger is created or migrated where that is needed.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    ledger = open_ledger(settings.ledger_url)
    try:
        yield Stores(settings, Landing(settings.landing_dir), Lake(settings.lake_dir), ledger)
    finally:
        ledger.close()
