"""The stores of one installation."""

import grp
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake, check_lake_ledger
from evaluation_pipelines.storage.landing import LandingSource, open_landing
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.store import keep_private, open_store


@dataclass(frozen=True, slots=True)
class Stores:
    """Landing files, lake and ledger of the settings; ``group_id`` may read figures."""

    settings: Settings
    landing: LandingSource
    lake: Lake
    ledger: Ledger
    group_id: int | None = None


class SharedGroupError(UserError):
    """``EVAL_SHARED_GROUP`` names no group of this machine."""


@contextmanager
def open_stores(settings: Settings, *, is_served: bool = False) -> Iterator[Stores]:
    """Open the stores; create the ledger if needed. New files of this process are private.

    With ``is_served`` people wait for answers: a server of the ledger that is away is an error.

    Raises:
        SharedGroupError: the group of the settings does not exist.
        LedgerError: the ledger cannot be used.
        OtherLedgerError: the lake belongs to another ledger.
    """
    keep_private()
    with closing(open_ledger(settings.ledger_url, is_served=is_served)) as ledger:
        stores = _stores(settings, ledger)
        check_lake_ledger(stores.lake, ledger, note=True)
        yield stores


@contextmanager
def read_stores(settings: Settings, *, is_known: bool = False) -> Iterator[Stores]:
    """Open the stores for reading; a missing ledger is not created.

    With ``is_known`` another process uses them: a server of the ledger that is away is waited for.

    Raises:
        NoLedgerError: nothing was ever ingested here.
        LedgerError: the ledger cannot be used.
        OtherLedgerError: the lake belongs to another ledger.
    """
    keep_private()
    try:
        opened = open_ledger(settings.ledger_url, create=False, is_known=is_known)
    except NoLedgerError as error:
        raise NoLedgerError(
            f"{error} Run evaluation-pipelines ingest (or demo) first. If the data lie elsewhere, "
            "set EVAL_DATA_DIR, or EVAL_LEDGER_URL for the ledger alone."
        ) from error
    with closing(opened) as ledger:
        stores = _stores(settings, ledger)
        check_lake_ledger(stores.lake, ledger, note=False)
        yield stores


def _stores(settings: Settings, ledger: Ledger) -> Stores:
    group_id = _group_id(settings)
    if group_id is not None and settings.data_dir.is_dir():
        os.chown(settings.data_dir, -1, group_id)
        settings.data_dir.chmod(0o710)  # to pass through, not to list
    lake = Lake(open_store(settings.lake_dir, group_id), Manifest(ledger))
    landing = open_landing(settings.landing_dir)
    return Stores(settings, landing, lake, ledger, group_id)


def _group_id(settings: Settings) -> int | None:
    if settings.shared_group is None:
        return None
    try:
        return grp.getgrnam(settings.shared_group).gr_gid
    except KeyError as error:
        raise SharedGroupError(
            f"EVAL_SHARED_GROUP: there is no group {settings.shared_group} on this machine."
        ) from error
