"""Store in a bucket of an object store, by the client ``obstore``.

An object is written by one conditional request, so that it is there as a whole or not at all, and
never replaced. What fails for reasons that pass (no answer, errors of the server, throttling) is
tried again for some seconds. Access keys come from the variables of the cloud's own tools, such
as ``AWS_ACCESS_KEY_ID``; no message shows them.
"""

import errno
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import SystemRandom
from typing import Any, TypeVar

import duckdb
import obstore
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from evaluation_pipelines.storage.store import RefusedError, StoredFile, StoreError

_Answer = TypeVar("_Answer")

_REFUSED = (PermissionDeniedError, UnauthenticatedError)
_REFUSALS = (401, 403)
_STATUS = re.compile(r"status code: (\d{3})")
_PASSING = frozenset((408, 409, 425, 429))
"""Answers below 500 after which a request is sent again: too slow, contested, too many."""

_TYPES: dict[str, "obstore.Attributes"] = {
    "html": {"Content-Type": "text/html; charset=utf-8"},
    "md": {"Content-Type": "text/markdown; charset=utf-8"},
}
"""Content type of an object, by the end of its name."""

_NO_RANGE = 416
_NO_BUCKET = re.compile(
    r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not exist"
)
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,80})</Code>")
_LONGEST_REASON = 300
_MOST_SIZES = 10_000
_PROBES = "_tmp/clock"
_PROBE_KEPT_S = 3600


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for an object store.

    Attributes:
        connect_s: Seconds for a connection.
        silence_s: Seconds without a byte of an answer.
        request_s: Seconds for a whole request.
        pauses_s: Seconds before each further attempt; up to half of it is added at random.
        total_s: Seconds after which no further attempt begins.
    """

    connect_s: float = 5
    silence_s: float = 20
    request_s: float = 120
    pauses_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1, 2, 4, 8)
    total_s: float = 120


USUAL_PATIENCE = Patience()


class ReplacedError(FileNotFoundError):
    """An object has other content than when it was listed."""


class ObjectStore:
    """Objects below a URL such as ``s3://bucket/prefix``."""

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        self.url = url.rstrip("/")
        self._patience = patience or USUAL_PATIENCE
        self._sizes: dict[str, int] = {}
        try:
            self._client = from_url(
                self.url,
                client_options={
                    "allow_http": True,  # only where an endpoint with http:// was set
                    "connect_timeout": timedelta(seconds=self._patience.connect_s),
                    "read_timeout": timedelta(seconds=self._patience.silence_s),
                    "timeout": timedelta(seconds=self._patience.request_s),
                },
                # An attempt whose answer was lost may have succeeded: ``put`` has to know of it.
                retry_config={"max_retries": 0},
            )
        except (BaseError, ValueError) as error:
            raise StoreError(f"{url} cannot be used: {_reason(error)}") from None

    def put(
        self,
        path: str,
        content: bytes | memoryview,
        *,
        shared: bool = False,
        replaces: bool = False,
    ) -> None:
        """Write an object; who may read it is up to the bucket. See ``Store.put``."""
        attempts = 0
        mode: obstore.PutMode = "overwrite" if replaces else "create"
        attributes = _TYPES.get(path.rpartition(".")[2])

        def attempt() -> None:
            nonlocal attempts
            attempts += 1
            obstore.put(
                self._client, path, content, mode=mode, attributes=attributes, use_multipart=False
            )

        try:
            self._tried(path, attempt)
        except FileExistsError:
            # Of several attempts an earlier one may have written it, and its answer was lost.
            if attempts == 1 or self.get(path) != content:
                raise

    def get(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of an object; see ``Store.get``."""
        if end is not None and end <= start:
            return b""
        content = self._tried(path, lambda: self._bytes(path, start, end))
        if start == 0 and end is None:
            self._note_size(path, len(content))
        return content

    def _note_size(self, path: str, size_bytes: int) -> None:
        """Keep the size of an object, which never changes: who reads parts of it need not ask."""
        if len(self._sizes) >= _MOST_SIZES:
            self._sizes.clear()
        self._sizes[path] = size_bytes

    def _bytes(self, path: str, start: int, end: int | None) -> bytes:
        try:
            if end is not None:
                return bytes(obstore.get_range(self._client, path, start=start, end=end))
            if start:
                options: obstore.GetOptions = {"range": {"offset": start}}
                return bytes(obstore.get(self._client, path, options=options).bytes())
            return bytes(obstore.get(self._client, path).bytes())
        except BaseError as error:
            if _status(error) == _NO_RANGE:  # it begins after the end
                return b""
            raise

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the objects whose key begins with a prefix, or all; see ``Store.list``."""
        for meta in self.list_objects(prefix.rstrip("/") or None):
            yield StoredFile(meta["path"], meta["last_modified"].timestamp())

    def list_objects(self, folder: str | None = None) -> Sequence["obstore.ObjectMeta"]:
        """Return all objects, or those of a folder, sorted by path.

        Raises:
            StoreError: The store refuses, or does not answer.
        """
        found = self._tried(
            folder or "",
            lambda: [meta for page in obstore.list(self._client, folder) for meta in page],
        )
        return sorted(found, key=lambda meta: meta["path"])

    def get_unchanged(self, path: str, e_tag: str | None, start: int, end: int) -> bytes:
        """Return the bytes ``start`` to ``end`` of an object that others may have replaced.

        Raises:
            FileNotFoundError: There is no such object.
            ReplacedError: It has another ETag.
            StoreError: The store refuses, or does not answer.
        """

        def attempt() -> bytes:
            options: obstore.GetOptions = {"range": (start, end)}
            if e_tag is not None:
                options["if_match"] = e_tag
            try:
                found = obstore.get(self._client, path, options=options)
            except PreconditionError:
                raise ReplacedError(self.where(path)) from None
            # Some servers ignore the condition.
            if e_tag is not None and found.meta["e_tag"] != e_tag:
                raise ReplacedError(self.where(path))
            content = bytes(found.bytes())
            if len(content) != end - start:
                raise OSError(f"{len(content)} bytes came, not {end - start}")
            return content

        return self._tried(path, attempt)

    def replace(self, path: str, content: bytes, e_tag: str | None) -> str | None:
        """Put an object in the place of the one with this ETag, and return its own.

        Raises:
            FileNotFoundError: There is no such object.
            ReplacedError: It has another ETag.
            StoreError: The store refuses, or does not answer.
        """
        attempts = 0
        mode: obstore.PutMode = "overwrite" if e_tag is None else {"e_tag": e_tag}

        attributes = self._attributes(path)

        def attempt() -> str | None:
            nonlocal attempts
            attempts += 1
            try:
                put = obstore.put(
                    self._client,
                    path,
                    content,
                    mode=mode,
                    attributes=attributes,
                    use_multipart=False,
                )
            except PreconditionError:
                raise ReplacedError(self.where(path)) from None
            return put["e_tag"]

        try:
            return self._tried(path, attempt)
        except ReplacedError:
            # Of several attempts an earlier one may have written it, and its answer was lost.
            if attempts == 1 or self.get(path) != content:
                raise
            return self.head(path)["e_tag"]

    def _attributes(self, path: str) -> "obstore.Attributes":
        """Return what an object says of its content, such as how it is encoded."""
        options: obstore.GetOptions = {"head": True}
        return self._tried(
            path, lambda: obstore.get(self._client, path, options=options).attributes
        )

    def head(self, path: str) -> "obstore.ObjectMeta":
        """Return what the store knows of an object; raises as ``get``."""
        return self._tried(path, lambda: obstore.head(self._client, path))

    def exists(self, path: str) -> bool:
        """Return True if there is such an object."""
        try:
            self.head(path)
        except FileNotFoundError:
            return False
        return True

    def size_bytes(self, path: str) -> int:
        """Return the size of an object; raises FileNotFoundError if there is none."""
        size_bytes = self._sizes.get(path)
        if size_bytes is None:
            size_bytes = self.head(path)["size"]
            self._note_size(path, size_bytes)
        return size_bytes

    def delete(self, path: str) -> None:
        """Delete an object; see ``Store.delete``."""
        self._tried(path, lambda: obstore.delete(self._client, path))

    def now(self) -> float:
        """Return the time of the server, which is that of an object put now; see ``Store.now``.

        It is deleted, and so are older ones that a kill has left.
        """
        path = f"{_PROBES}/{uuid.uuid4().hex}"
        self.put(path, b"")
        probes = {file.path: file.changed_at for file in self.list(f"{_PROBES}/")}
        now = probes[path]
        for probe, changed_at in probes.items():
            if probe == path or changed_at < now - _PROBE_KEPT_S:
                self.delete(probe)
        return now

    def delete_staged(self, before: datetime, grace: timedelta = timedelta()) -> bool:
        """Return True: a request that was not completed leaves nothing."""
        return True

    def advice(self) -> str:
        """Return what to check; see ``Store.advice``."""
        return "Check address and rights, then run again."

    def where(self, path: str = "") -> str:
        """Return the URL of an object; see ``Store.where``."""
        return f"{self.url}/{path}" if path else self.url

    def address(self, path: str = "") -> str:
        """Return the URL of an object; see ``Store.address``."""
        return self.where(path)

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Let DuckDB read the objects; see ``Store.attach``."""
        from evaluation_pipelines.storage.object_store import attach

        attach(connection, self)

    def _tried(self, path: str, request: Callable[[], _Answer]) -> _Answer:
        """Return the answer of a request, which is sent again if the reason of a failure may pass.

        Raises:
            FileNotFoundError: There is no such object.
            FileExistsError: There is such an object.
            StoreError: The store refuses, or does not answer.
        """
        give_up_at = time.monotonic() + self._patience.total_s
        for pause_s in (*self._patience.pauses_s, None):
            try:
                return request()
            except AlreadyExistsError:
                raise FileExistsError(errno.EEXIST, "exists", self.where(path)) from None
            except ReplacedError:
                raise
            except (BaseError, OSError) as error:
                is_last = pause_s is None or time.monotonic() + pause_s > give_up_at
                self._raise_lasting(path, error, is_last=is_last)
            time.sleep((pause_s or 0) * SystemRandom().uniform(1, 1.5))
        raise AssertionError  # the last attempt returns or raises

    def _raise_lasting(self, path: str, error: Exception, *, is_last: bool) -> None:
        """Raise the error of a request, unless its reason may pass and there is another attempt.

        The error of the client is no cause: its text has the whole request and answer.
        """
        where, reason = self.where(path), _reason(error)
        if _NO_BUCKET.search(str(error)):
            raise StoreError(
                f"{self.url}: there is no such bucket. Create it, or correct the URL."
            ) from None
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, "there is no such object", where) from None
        status = _status(error)
        if isinstance(error, _REFUSED) or status in _REFUSALS:
            raise RefusedError(
                f"{where}: access is refused ({reason}). Check the access keys in the environment "
                "and their rights: read, write, list and delete below this URL.",
                reason,
            ) from None
        if isinstance(error, InvalidPathError):
            raise StoreError(
                f"{self.url}: a key below it cannot be used ({reason}). Rename that object, or "
                "choose another prefix."
            ) from None
        if status is not None and status < 500 and status not in _PASSING:
            raise StoreError(f"{where}: the request is refused ({reason}).") from None
        if is_last:
            raise StoreError(
                f"{where}: the object store does not answer as it should ({reason}). Check that "
                "it can be reached from here, then run again."
            ) from None


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an answer; None if there was none."""
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else None


def _reason(error: Exception) -> str:
    """Return why a request failed, on one line and without what was sent."""
    text = str(error).partition("\n\nDebug source")[0]
    said = text.rpartition(" - ")[2]
    code = _CODE.search(said)
    first = " ".join(said.partition("<")[0].replace("Server returned non-2xx", "").split())
    return f"{first.rstrip(': ')}{f', {code.group(1)}' if code else ''}"[:_LONGEST_REASON]


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
        store, in_store = self._store_and_path(path)
        return {"name": path, "type": "file", "size": store.size_bytes(in_store)}

    def modified(self, path: str) -> datetime:
        """Return the same time for all: objects of the lake never change."""
        return datetime.fromtimestamp(0, UTC)

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> "ObjectFile":
        store, in_store = self._store_and_path(path)
        return ObjectFile(self, path, store, in_store)

    def _store_and_path(self, path: str) -> tuple[ObjectStore, str]:
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
