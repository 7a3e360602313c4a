"""Objects of a bucket with telemetry: listed, and read in ranges.

An object never changes. One that was replaced under its key has another ETag and is another
object: it is read from its beginning, and events that both have are kept once.
"""

import hashlib
import io
import os
import re
import shlex
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, cast

from evaluation_pipelines import times
from evaluation_pipelines.storage.landing import (
    OTHER_FOLDERS,
    FileReplacedError,
    Head,
    LandingError,
    LandingFile,
    SkippedFile,
    is_read,
    why_not_read,
)
from evaluation_pipelines.storage.object_store import ObjectStore, ReplacedError
from evaluation_pipelines.storage.raw_lines import RandomAccessFile
from evaluation_pipelines.storage.store import RefusedError, StoreError

if TYPE_CHECKING:
    from obstore import ObjectMeta

_FIRST_BYTES = 64 * 1024
"""Read of an object at once: what tells its encoding, its first time, and all of a small one."""

_MOST_BYTES = 8 * 1024 * 1024
_GROWTH = 8
_KEPT_BYTES = 32 * 1024 * 1024
_AT_A_TIME = 16
_HIDDEN = re.compile(r"(?:\A|/)\.")
_NOTHING = "there is no object below it yet"
_NOT_SAID = "keys must end in .jsonl, in the folder itself: move or rename it"
_REPLACED = "it was replaced since it was listed. The next run reads the new object"
_DELETED = "it was deleted since it was listed"


class ObjectLanding:
    """Reader of the objects of a store; see ``LandingSource``."""

    folder = None
    grows = False

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._beginnings: dict[LandingFile, bytes] = {}
        self._kept_bytes = 0
        self._lock = Lock()

    @property
    def objects(self) -> "ObjectLanding":
        """These objects."""
        return self

    @property
    def location(self) -> str:
        """The URL."""
        return self._store.url

    def where(self, path: str = "") -> str:
        """Return the URL of an object, or of all."""
        return self._store.where(path)

    def shown(self, path: str) -> str:
        """Return the URL of an object."""
        return self._store.where(path)

    def relative(self, given: str) -> str:
        """Return the path of an object that was named by its path or URL."""
        return given.removeprefix(f"{self.location}/")

    def shell_input(self, path: str, command: str) -> str:
        """Return a pipe from the client of Amazon, which other stores understand as well."""
        return f"aws s3 cp {shlex.quote(self.where(path))} - | {command}"

    def list_files(
        self, known: Collection[tuple[int, int]] = ()
    ) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return all objects with telemetry, sorted by path, and skipped ones."""
        objects = self._objects()
        found = [meta for meta in objects if meta["path"].partition("/")[0] not in OTHER_FOLDERS]
        files = [self._file(meta) for meta in found if is_read(meta["path"])]
        skipped = [
            SkippedFile(self.where(meta["path"]), why_not_read(meta["path"]))
            for meta in found
            if not is_read(meta["path"]) and meta["size"]  # no mark of a folder
        ]
        return files, skipped if objects else [SkippedFile(self.where(), _NOTHING)]

    def list_external(self, kind: str) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return the objects ``*.jsonl`` of ``signals`` or ``evaluations``, and skipped ones."""
        files, skipped = list[LandingFile](), list[SkippedFile]()
        for meta in self._objects(kind):
            _, _, name = meta["path"].partition("/")
            if name.endswith(".jsonl") and "/" not in name:
                files.append(self._file(meta))
            elif meta["size"]:
                skipped.append(SkippedFile(self.where(meta["path"]), _NOT_SAID))
        return files, skipped

    def fingerprint(self) -> str:
        """Return a text that changes with any object."""
        content = hashlib.blake2b(digest_size=16)
        for meta in self._objects():
            content.update(f"{meta['path']}\0{meta['size']}\0{_content_name(meta)}\0".encode())
        return content.hexdigest()

    def open(self, file: LandingFile) -> BinaryIO:
        """Return an object to read; nothing is requested before that."""
        return cast(BinaryIO, LandedObject(self, file))

    def open_elsewhere(self, file: LandingFile, head: Head) -> BinaryIO:
        """Return an object to read: its ETag says everywhere which one it is."""
        return self.open(file)

    def prefetch(self, files: Sequence[LandingFile]) -> None:
        """Ask for the first bytes of several objects at a time, of as many as are kept."""
        sizes = accumulate(map(_first_bytes, files))
        wanted = files[: bisect_right(list(sizes), _KEPT_BYTES)]
        if len(wanted) < 2:
            return
        threads = ThreadPoolExecutor(_AT_A_TIME)
        try:
            for asked in [threads.submit(self.beginning, file) for file in wanted]:
                with suppress(OSError):  # of one object: raised again when that is opened
                    asked.result()
        finally:
            threads.shutdown(cancel_futures=True)

    def delete(self, file: LandingFile) -> bool:
        """Delete an object; see ``LandingSource.delete``."""
        with _landing_errors():
            try:
                self._store.get_unchanged(file.path, file.e_tag, 0, 1)
            except FileNotFoundError:  # deleted, or replaced by another object
                return False
            self._store.delete(file.path)
        return True

    def replace(self, file: LandingFile, content: bytes) -> LandingFile:
        """Put an object with other content in the place of one, and return it.

        Raises:
            FileNotFoundError: It was deleted or replaced since it was listed.
            PermissionError: The access keys may not write it.
            LandingError: The store does not answer.
        """
        with _landing_errors():
            e_tag = self._store.replace(file.path, content, file.e_tag)
            found = self._store.head(file.path)
        if found["e_tag"] != e_tag:  # by another one since
            raise FileReplacedError(_REPLACED)
        return self._file({**found, "path": file.path})

    def has_versions(self, file: LandingFile) -> bool:
        """Return True if the bucket may keep an object that is replaced or deleted."""
        with _landing_errors():
            return self._store.head(file.path)["version"] is not None

    def beginning(self, file: LandingFile) -> bytes:
        """Return the first bytes of an object, which are kept for a while."""
        with self._lock:
            content = self._beginnings.get(file)
        if content is None:
            content = self.get(file, 0, _first_bytes(file))
            with self._lock:
                self._keep(file, content)
        return content

    def _keep(self, file: LandingFile, content: bytes) -> None:
        if file not in self._beginnings:
            self._kept_bytes += len(content)
        self._beginnings[file] = content
        while self._kept_bytes > _KEPT_BYTES:
            oldest = next(iter(self._beginnings))
            self._kept_bytes -= len(self._beginnings.pop(oldest))

    def get(self, file: LandingFile, start: int, end: int) -> bytes:
        """Return bytes of an object.

        Raises:
            FileNotFoundError: It was deleted or replaced since it was listed.
            PermissionError: The access keys may not read it.
            LandingError: The store does not answer.
        """
        if end <= start:
            return b""
        with _landing_errors():
            return self._store.get_unchanged(file.path, file.e_tag, start, end)

    def _objects(self, folder: str | None = None) -> list["ObjectMeta"]:
        try:
            found = self._store.list_objects(folder)
        except StoreError as error:
            raise LandingError(str(error)) from None
        return [meta for meta in found if not _HIDDEN.search(meta["path"])]

    def _file(self, found: "ObjectMeta") -> LandingFile:
        name = self.where(found["path"])
        changed_at_ns = 1000 * times.to_us(found["last_modified"])
        return LandingFile(
            path=found["path"],
            device=_number(name),
            inode=_number(f"{name}\0{_content_name(found)}\0{found['size']}"),
            size_bytes=found["size"],
            modified_at_ns=changed_at_ns,
            changed_at_ns=changed_at_ns,
            e_tag=found["e_tag"],
        )


class LandedObject(RandomAccessFile):
    """An object that is read in ranges, larger ones while it is read in order."""

    def __init__(self, landing: ObjectLanding, file: LandingFile) -> None:
        super().__init__()
        self._landing, self._file = landing, file
        self._position = 0
        self._start, self._block = 0, b""
        self._ahead_bytes = _FIRST_BYTES

    @property
    def size_bytes(self) -> int:
        """Size of the object."""
        return self._file.size_bytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("only positions from the start are used")
        self._position = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, or those up to the end."""
        content = self.read_at(self.size_bytes if size < 0 else size, self._position)
        self._position += len(content)
        return content

    def read_at(self, size: int, offset: int) -> bytes:
        """Return bytes of the object; see ``RandomAccessFile.read_at``."""
        return b"".join(self._pieces(offset, min(offset + size, self.size_bytes)))

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        while offset < end:
            start, block = self._block_with(offset, end)
            piece = block[offset - start : end - start]
            yield piece
            offset += len(piece)

    def _block_with(self, offset: int, end: int) -> tuple[int, bytes]:
        """Return a block that has the byte at ``offset``, and where it begins."""
        if offset < _FIRST_BYTES:
            return 0, self._landing.beginning(self._file)
        block_end = self._start + len(self._block)
        if not self._start <= offset < block_end:
            is_next = offset in (block_end, _FIRST_BYTES)
            ahead = self._ahead_bytes * _GROWTH if is_next else _FIRST_BYTES
            self._ahead_bytes = min(ahead, _MOST_BYTES)
            size = min(max(end - offset, self._ahead_bytes), _MOST_BYTES)
            stop = min(offset + size, self.size_bytes)
            self._start, self._block = offset, self._landing.get(self._file, offset, stop)
        return self._start, self._block


@contextmanager
def _landing_errors() -> Iterator[None]:
    """Tell errors of one object, after which others may be used, from those of the store."""
    try:
        yield
    except ReplacedError:
        raise FileReplacedError(_REPLACED) from None
    except FileNotFoundError:
        raise FileNotFoundError(_DELETED) from None
    except RefusedError as error:
        reason = f"access is refused ({error.reason}): check what the access keys may do"
        raise PermissionError(reason) from None
    except StoreError as error:
        raise LandingError(str(error)) from None


def _content_name(found: "ObjectMeta") -> str:
    """Return an identifier of an object's content: its ETag, else the time of its change."""
    return found["e_tag"] or f"{found['last_modified'].timestamp()}"


def _first_bytes(file: LandingFile) -> int:
    return min(_FIRST_BYTES, file.size_bytes)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
