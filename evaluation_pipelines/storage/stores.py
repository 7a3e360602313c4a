"""The stores of one installation."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Stores:
    """Landing folder, lake and ledger of the settings."""

    settings: Settings
    landing: Landing
    lake: Lake
    ledger: Ledger


@contextmanager
def open_stores(settings: Settings) -> Iterator[Stores]:
    """Open the stores; create or migrate the ledger if needed.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    with closing(open_ledger(settings.ledger_url)) as ledger:
        yield _stores(settings, ledger)


@contextmanager
def read_stores(settings: Settings) -> Iterator[Stores]:
    """Open the stores for reading; a missing ledger is not created.

    Raises:
        NoLedgerError: nothing was ever ingested here.
        LedgerError: the ledger cannot be used.
    """
    try:
        opened = open_ledger(settings.ledger_url, create=False)
    except NoLedgerError as error:
        raise NoLedgerError(
            f"{error} Run evaluation-pipelines ingest (or demo) first; if the data lie elsewhere, "
            "set EVAL_DATA_DIR, or EVAL_LEDGER_URL for the ledger alone."
        ) from error
    with closing(opened) as ledger:
        yield _stores(settings, ledger)


def _stores(settings: Settings, ledger: Ledger) -> Stores:
    return Stores(
        settings, Landing(settings.landing_dir), Lake(settings.lake_dir, Manifest(ledger)), ledger
    )
