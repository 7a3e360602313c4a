"""Files that the service writes to the landing folder: appended to, and synced before an answer.

Each is created by one process and appended to by it alone, so that several services can share a
folder. After a kill a file may end within a record that was never acknowledged; nothing is
appended to it again. A file that someone deletes or makes read-only gets nothing more either:
that is how `forget` asks for one.

Telemetry that came with a key lies in ``received/<organization>/<UTC date>/<file>`` in the landing
folder; the organization is percent-encoded, and ``_`` for keys of all organizations, whose records
keep what they say.
"""

import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, unquote

_MAX_OPEN_FILES = 128
_sync_content = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """Content to append to a file of a folder (relative to the landing folder), by its ending."""

    folder: str
    ending: str
    content: bytes


@dataclass(slots=True)
class _OpenFile:
    """A file that is written; ``size_bytes`` are on disk."""

    path: Path
    descriptor: int
    hour: datetime
    size_bytes: int = 0


class ReceivedFiles:
    """Writer of ``<folder>/<UTC date>/<hour>-<random>.<ending>`` below ``root``.

    A new file is begun each hour, and when one has ``max_file_bytes``. Not for several threads.
    """

    def __init__(self, root: Path, max_file_bytes: int, clock: Callable[[], datetime]) -> None:
        self._root, self._max_file_bytes, self._clock = root, max_file_bytes, clock
        self._open: dict[tuple[str, str], _OpenFile] = {}

    def append(self, records: Sequence[ReceivedRecord]) -> list[OSError | None]:
        """Append records and sync their files, each once.

        Returns:
            For each record None if it is on disk, otherwise why not: then nothing of it is left.
        """
        groups: dict[tuple[str, str], list[int]] = {}
        for index, record in enumerate(records):
            groups.setdefault((record.folder, record.ending), []).append(index)
        results: list[OSError | None] = [None] * len(records)
        for key, indices in groups.items():
            try:
                self._append(key, b"".join(records[index].content for index in indices))
            except OSError as error:
                for index in indices:
                    results[index] = error
        return results

    def close_finished(self) -> bool:
        """Close the files that get nothing more; return True if others are open."""
        hour = self._hour()
        for key, file in list(self._open.items()):
            if file.hour != hour or _is_given_up(file.descriptor):
                self._close(key)
        return bool(self._open)

    def close(self) -> None:
        """Close all files."""
        for key in list(self._open):
            self._close(key)

    def _append(self, key: tuple[str, str], content: bytes) -> None:
        file = self._file(key)
        try:
            _write_all(file.descriptor, content)
            _sync_content(file.descriptor)
        except OSError:
            # What is in the file now is not known for sure: it gets nothing more.
            with suppress(OSError):
                os.ftruncate(file.descriptor, file.size_bytes)
            self._close(key)
            if file.size_bytes == 0:
                file.path.unlink(missing_ok=True)
            raise
        file.size_bytes += len(content)
        if file.size_bytes >= self._max_file_bytes:
            self._close(key)

    def _file(self, key: tuple[str, str]) -> _OpenFile:
        """Return the file of this hour; the one used last is last in ``_open``."""
        hour = self._hour()
        file = self._open.pop(key, None)
        if file is not None and (file.hour != hour or _is_given_up(file.descriptor)):
            os.close(file.descriptor)
            file = None
        if file is None:
            file = self._create(*key, hour)
        self._open[key] = file
        if len(self._open) > _MAX_OPEN_FILES:
            self._close(next(iter(self._open)))
        return file

    def _create(self, folder: str, ending: str, hour: datetime) -> _OpenFile:
        day = self._root / folder / f"{hour:%Y-%m-%d}"
        make_folder(day)
        path = day / f"{hour:%H}-{secrets.token_hex(8)}.{ending}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            sync_folder(day)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return _OpenFile(path, descriptor, hour)

    def _hour(self) -> datetime:
        return self._clock().replace(minute=0, second=0, microsecond=0)

    def _close(self, key: tuple[str, str]) -> None:
        os.close(self._open.pop(key).descriptor)


def _is_given_up(descriptor: int) -> bool:
    """Return True for a file that was deleted or made read-only."""
    status = os.fstat(descriptor)
    return status.st_nlink == 0 or not status.st_mode & stat.S_IWUSR


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that all of them survive a crash."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


RECEIVED = "received"
_NO_ORGANIZATION = "_"
_MAX_NAME_BYTES = 255


def received_folder(organization: str | None) -> str:
    """Return the folder of an organization's telemetry, relative to the landing folder.

    Raises:
        ValueError: the name of the organization gives no name of a folder.
    """
    if organization is None:
        return f"{RECEIVED}/{_NO_ORGANIZATION}"
    # A leading dot would hide the folder, an underscore could be mistaken for no organization.
    name = quote(organization, safe="").replace("~", "%7E")
    name = (
        "".join(
            f"%{ord(character):02X}" if character in "._" else character for character in name[:1]
        )
        + name[1:]
    )
    if not name or len(name) > _MAX_NAME_BYTES:
        raise ValueError(f"the organization {organization!r} is too long for the name of a folder")
    return f"{RECEIVED}/{name}"


def organization_of(path: str) -> str | None:
    """Return the organization that a landing file came with; None if its records say it."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != RECEIVED or parts[1] == _NO_ORGANIZATION:
        return None
    return unquote(parts[1])
