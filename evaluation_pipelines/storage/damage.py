"""Damaged files of the lake, found before a reader meets them."""

from functools import lru_cache

from evaluation_pipelines.schemas import QUARANTINE, TABLES
from evaluation_pipelines.storage.lake import DamagedPartError, Lake
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.stores import Stores

_MOST_REMEMBERED = 100_000


def find_damage(stores: Stores) -> list[str]:
    """Return what is wrong with files that are missing, or changed since they were written.

    It is noted in the ledger as if a reader had met it. Lines in quarantine are for people to read:
    they may delete them when they have.

    Raises:
        LakeError: A file cannot be read.
    """
    lake, found = stores.lake, list[str]()
    for table in (each for each in TABLES if each is not QUARANTINE):
        parts = Manifest(stores.ledger).all_current(table.name)
        files = {each.path: each.changed_at for each in lake.store.list(f"{table.name}/")}
        for part in parts:
            changed_at = files.get(part.path)
            if changed_at is None or changed_at > part.created_at.timestamp():
                try:
                    _verify(lake, part, changed_at)
                except DamagedPartError as error:
                    found.append(str(error))
    return found


@lru_cache(_MOST_REMEMBERED)
def _verify(lake: Lake, part: Part, _changed_at: float | None) -> None:
    """Verify a file; a sound one, as of a copied folder, is not read again until it changes."""
    lake.verify(part)
