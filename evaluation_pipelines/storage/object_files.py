"""Objects as files that DuckDB opens by their URL, read in ranges."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from evaluation_pipelines.storage.object_store import ObjectStore

_BLOCK_BYTES = 1024 * 1024
"""Read at once: DuckDB asks for the footer of a file first, then for columns of a row group."""

_STORES: dict[str, ObjectStore] = {}
"""URL -> the store below it that was attached last."""


def attach(connection: duckdb.DuckDBPyConnection, store: ObjectStore) -> None:
    """Let a connection, and all of the same DuckDB, read the objects of a store."""
    _STORES[store.url] = store
    scheme = store.url.partition("://")[0]
    if scheme not in connection.list_filesystems():
        try:
            connection.register_filesystem(ObjectFiles(scheme))
        except duckdb.InvalidInputException:
            if scheme not in connection.list_filesystems():
                raise  # else another thread was faster


class ObjectFiles(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Read-only file system over the attached stores of a scheme."""

    cachable = False

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.protocol = scheme
        self._scheme = scheme

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the path: lists of files are explicit."""
        return [path]

    def info(self, path: str, **_options: Any) -> Mapping[str, object]:
        """Return name, type and size of an object."""
        store, in_store = self._found(path)
        return {"name": path, "type": "file", "size": store.size_bytes(in_store)}

    def modified(self, path: str) -> datetime:
        """Return the same time for all: objects of the lake never change."""
        return datetime.fromtimestamp(0, UTC)

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> "ObjectFile":
        store, in_store = self._found(path)
        return ObjectFile(self, path, store, in_store)

    def _found(self, path: str) -> tuple[ObjectStore, str]:
        """Return the store of an object and its path there."""
        url = path if "://" in path else f"{self._scheme}://{path}"
        for root, store in _STORES.items():
            if url.startswith(f"{root}/"):
                return store, url.removeprefix(f"{root}/")
        raise FileNotFoundError(f"{url} is in no store that was attached")


class ObjectFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """An object that is read in blocks."""

    def __init__(self, files: ObjectFiles, path: str, store: ObjectStore, in_store: str) -> None:
        self._store, self._in_store = store, in_store
        size = store.size_bytes(in_store)
        cache = "all" if size <= _BLOCK_BYTES else "readahead"
        super().__init__(files, path, "rb", block_size=_BLOCK_BYTES, cache_type=cache, size=size)

    def _fetch_range(self, start: int, end: int) -> bytes:
        """Return bytes of the object, by name called by the cache."""
        return self._store.get(self._in_store, start, end)
