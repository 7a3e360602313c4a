"""Store of the lake's files, a small protocol, in a folder of this machine; and secret keys.

Files are never changed, and those of the lake never replaced: they are written under a temporary
name, synced, and then get their own, so that a reader or a crash never meets half a file. Folders
are private to their owner; figures can be shared with a group. Symbolic links inside the store are
never followed: a user who can create a file there could have another one overwritten or read.

Each secret key of keyed hashes has a file that only its owner may read.
"""

import errno
import os
import secrets
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.parts import ALL_BUCKETS, Shard

if TYPE_CHECKING:
    import duckdb  # slow to import

    from evaluation_pipelines.storage.object_store import ObjectStore

_OBJECT_STORES = ("s3", "gs", "az")
_STAGING = "_tmp"
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_SHARED_FOLDER, _SHARED_FILE = 0o750, 0o640
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class StoreError(UserError, OSError):
    """A store refuses or does not answer; the message says where, why and what to do."""


class RefusedError(StoreError):
    """The access keys may not do this; ``reason`` is what the store said."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class LinkError(UserError, OSError):
    """A symbolic link is where the program keeps its files; the message names it."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store: its path, with ``/`` on every system, and its last change."""

    path: str
    changed_at: float


class Store(Protocol):
    """Files by path, each written once."""

    def put(
        self, path: str, content: bytes | memoryview, *, shared: bool, replaces: bool = False
    ) -> None:
        """Write a file all at once and durably.

        With ``shared`` the group of the store may read it.

        Raises:
            FileExistsError: There is such a file; with ``replaces`` it is replaced instead.
            LinkError: A symbolic link is in the way.
            StoreError: The store refuses or does not answer.
            OSError: It cannot be written; nothing is left of it. See ``advice``.
        """

    def get(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes ``start`` to ``end`` of a file, to its end by default.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: It cannot be read.
        """

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files whose path begins with a prefix: it ends in ``/``, or is empty."""

    def exists(self, path: str) -> bool:
        """Return True if there is such a file."""

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    def now(self) -> float:
        """Return the time by the clock that notes when files were changed.

        Raises:
            StoreError: The store refuses or does not answer.
            OSError: Nothing can be written.
        """

    def delete_staged(self, before: datetime, grace: timedelta = timedelta()) -> bool:
        """Delete what crashes left of files that were being written, last changed before a time.

        By the clock of the store that was longer than ``grace`` ago.

        Returns:
            False if there are newer ones.
        """

    def advice(self) -> str:
        """Return what to check after a file could not be written."""

    def where(self, path: str = "") -> str:
        """Return the full name of a file, or of the store, to show to users."""

    def address(self, path: str = "") -> str:
        """Return the name by which other programs open a file, or find the store."""

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Let a connection read files by their full names."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Parquet files of a store for DuckDB to read, of which a shard is wanted.

    Files of which only some rows are wanted have a column ``bucket``.
    """

    store: Store
    paths: Sequence[str]
    shard: Shard = ALL_BUCKETS

    def __bool__(self) -> bool:
        return bool(self.paths)

    @property
    def names(self) -> list[str]:
        """The full names of the files."""
        return [self.store.where(path) for path in self.paths]

    @property
    def addresses(self) -> list[str]:
        """The names by which other programs open the files."""
        return [self.store.address(path) for path in self.paths]


def older_than(
    store: Store, files: Sequence[StoredFile], before: datetime, grace: timedelta
) -> list[StoredFile]:
    """Return the files last changed before a time, and longer than ``grace`` ago for the store.

    The time is that of another clock, which may be ahead of the store's.
    """
    found = [file for file in files if file.changed_at < before.timestamp()]
    if found and grace:
        latest = store.now() - grace.total_seconds()
        found = [file for file in found if file.changed_at < latest]
    return found


class LocalStore:
    """A folder of this machine; ``group_id`` is the Unix group that may read shared files."""

    def __init__(self, root: Path, group_id: int | None = None) -> None:
        self.root = root
        self._group_id = group_id
        self._being_written: set[Path] = set()

    def put(
        self,
        path: str,
        content: bytes | memoryview,
        *,
        shared: bool = False,
        replaces: bool = False,
    ) -> None:
        """Write a file; see ``Store.put``."""
        target = self.root / path
        shared = shared and self._group_id is not None
        unique = uuid.uuid4().hex
        # Where people look for files that are replaced, such as reports, is no other folder.
        next_to_it = target.with_name(f".{unique}{target.suffix}")
        staged = next_to_it if replaces else self.root / _STAGING / unique
        self._being_written.add(staged)
        try:
            self._make_folder(staged.parent, shared=False)
            self._make_folder(target.parent, shared=shared)
            self._write(staged, content, shared=shared)
            if replaces:
                staged.replace(target)
            else:
                _name(staged, target)
            _sync(target.parent)
        finally:
            with suppress(OSError):  # the folder itself may be the problem
                staged.unlink(missing_ok=True)
            self._being_written.discard(staged)

    def get(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a file; see ``Store.get``."""
        target = self.root / path
        self.refuse_links(target.parent)
        # A link in the place of the file is an error of the system: too many levels of links.
        with os.fdopen(os.open(target, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files below a folder, or all; none below a link. See ``Store.list``."""
        if self._link_above(self.root / prefix) is not None:
            return
        root = f"{self.root}{os.sep}"
        for folder, folders, names in os.walk(self.root / prefix):
            folders.sort()
            for name in sorted(names):
                with suppress(FileNotFoundError):  # deleted by another process
                    path = f"{folder}{os.sep}{name}"
                    found = os.lstat(path)
                    if stat.S_ISREG(found.st_mode):
                        in_store = path.removeprefix(root).replace(os.sep, "/")
                        yield StoredFile(in_store, found.st_mtime)

    def exists(self, path: str) -> bool:
        """Return True if there is such a file."""
        return (self.root / path).exists()

    def delete(self, path: str) -> None:
        """Delete a file; see ``Store.delete``."""
        target = self.root / path
        self.refuse_links(target.parent)
        target.unlink(missing_ok=True)

    def now(self) -> float:
        """Return the time of the disk, which may be that of another machine."""
        self._make_folder(self.root / _STAGING, shared=False)
        probe = self.root / _STAGING / uuid.uuid4().hex
        self._being_written.add(probe)
        try:
            self._write(probe, b"", shared=False)
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)
            self._being_written.discard(probe)

    def delete_staged(self, before: datetime, grace: timedelta = timedelta()) -> bool:
        """Delete what crashes left of files; see ``Store.delete_staged``."""
        staged = list(self.list(f"{_STAGING}/"))
        for file in older_than(self, staged, before, grace):
            if self.root / file.path not in self._being_written:
                self.delete(file.path)
                staged.remove(file)
        return not staged

    def advice(self) -> str:
        """Return the free space of the disk, and what to check; see ``Store.advice``."""
        free = shutil.disk_usage(self.root if self.root.exists() else Path.cwd()).free // 2**20
        return f"The disk has {free} MiB free. Check space and permissions, then run again."

    def where(self, path: str = "") -> str:
        """Return the path of a file; see ``Store.where``."""
        return str(self.root / path)

    def address(self, path: str = "") -> str:
        """Return the absolute path of a file; see ``Store.address``."""
        return str((self.root / path).resolve())

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Do nothing: DuckDB reads files of this machine."""

    def refuse_links(self, path: Path) -> None:
        """Raise LinkError if a folder between the root and a path is a symbolic link."""
        link = self._link_above(path)
        if link is not None:
            refuse_link(link)

    def _link_above(self, path: Path) -> Path | None:
        """Return the first symbolic link between the root and a path, including the path."""
        folder = str(self.root)
        for part in path.relative_to(self.root).parts:
            folder = f"{folder}{os.sep}{part}"
            if os.path.islink(folder):  # noqa: PTH114 - run for each file that is read
                return Path(folder)
        return None

    def _make_folder(self, folder: Path, *, shared: bool) -> None:
        """Create a folder and those above it in the store; each survives a power cut."""
        self.refuse_links(folder)
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for path in reversed(missing):
            path.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
            _sync(path.parent)
        if shared:
            for parent in (folder, *folder.parents):
                if parent.is_relative_to(self.root):
                    share(parent, self._group_id)

    def _write(self, path: Path, content: bytes | memoryview, *, shared: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, _PRIVATE_FILE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if shared:
            share(path, self._group_id)


def refuse_link(path: Path) -> None:
    """Raise LinkError if a path is a symbolic link."""
    if path.is_symlink():
        raise LinkError(
            f"{path} is a symbolic link, which is not followed. Remove it. To keep files "
            "elsewhere, set EVAL_DATA_DIR or EVAL_LAKE_DIR."
        )


def share(path: Path, group_id: int | None) -> None:
    """Let a group read a file or a folder; without a group nothing changes."""
    mode = _SHARED_FOLDER if path.is_dir() else _SHARED_FILE
    if group_id is not None and path.stat().st_mode & 0o777 != mode:
        os.chown(path, -1, group_id)
        path.chmod(mode)


def keep_private() -> None:
    """Give new files of this process no permissions for the group and others."""
    os.umask(0o077)


def _name(staged: Path, target: Path) -> None:
    """Give a file its name; raises FileExistsError if there is such a file."""
    try:
        os.link(staged, target)  # unlike a rename, it replaces no file
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(target)) from error
        staged.rename(target)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        known = ", ".join(f"{store}://" for store in _OBJECT_STORES)
        raise UnknownStoreError(f"{location} is no object store. Use a path or one of {known}.")
    try:
        from evaluation_pipelines.storage.object_store import ObjectStore  # slow, rarely needed
    except ModuleNotFoundError as error:
        raise UnknownStoreError(
            f"{location} needs {error.name}: pip install 'evaluation-pipelines[object-store]'."
        ) from error
    return ObjectStore(location)


_KEY_BYTES = 32


class SecretKeyError(UserError):
    """The file of a key is missing, or is none."""


def read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if there is no file.

    Raises:
        SecretKeyError: The file has no key.
        OSError: The file cannot be read, or is a symbolic link.
    """
    refuse_link(path)
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SecretKeyError(
            f"{path} has no key of {_KEY_BYTES} bytes in hexadecimal digits: restore it from a "
            "backup."
        )
    return key


def make_key(path: Path) -> bytes:
    """Return the key in a file, which is made with mode 0600 if it is missing.

    Raises:
        SecretKeyError: The file has no key.
        OSError: It cannot be read or written.
    """
    if (known := read_key(path)) is not None:
        return known
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        with os.fdopen(os.open(staged, flags, 0o600), "w", encoding="ascii") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(staged, path)
    except FileExistsError:  # another process was faster
        return make_key(path)
    finally:
        staged.unlink(missing_ok=True)
    return key
