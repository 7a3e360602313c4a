"""Which store a setting means: a folder of this machine, or an object store."""

from pathlib import Path
from typing import TYPE_CHECKING

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.store import LocalStore, Store

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_store import ObjectStore

_OBJECT_STORES = ("s3", "gs", "az")


class UnknownStoreError(UserError):
    """A URL names no object store that can be used, or what it needs is not installed."""


def open_store(location: Path | str, group_id: int | None = None) -> Store:
    """Return the store at a place; nothing is read or written yet.

    Args:
        location: A folder, or the URL of an object store.
        group_id: Unix group that may read shared files of a folder.

    Raises:
        UnknownStoreError: There is no such kind of store, or its client is not installed.
    """
    if isinstance(location, Path):
        return LocalStore(location, group_id)
    return open_object_store(location)


def open_object_store(location: str) -> "ObjectStore":
    """Return the object store at a URL; see ``open_store``."""
    if location.partition("://")[0] not in _OBJECT_STORES:
        known = ", ".join(f"{each}://" for each in _OBJECT_STORES)
        raise UnknownStoreError(f"{location} is no object store; use a path or one of {known}.")
    try:
        from evaluation_pipelines.storage.object_store import ObjectStore  # slow, rarely needed
    except ModuleNotFoundError as error:
        raise UnknownStoreError(
            f"{location} needs {error.name}: pip install 'evaluation-pipelines[object-store]'."
        ) from error
    return ObjectStore(location)
