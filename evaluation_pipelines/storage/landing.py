"""Where telemetry lands: the files of a folder and their identities, and what a bucket offers, too.

The folder belongs to the collectors and is only read. A file is identified by device, inode and
the hash of its first bytes, never by its name: backups are renamed, live files are emptied, and
names are reused.
"""

import errno
import hashlib
import os
import re
import shlex
import signal
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.raw_lines import read_at
from evaluation_pipelines.storage.store import open_object_store

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_landing import ObjectLanding

HEAD_BYTES = 4096
_MAX_NAMES = 5
_SETTLED_NS = 2_000_000_000
_NAMES = ("jsonl", "json", "pb")
_ENDINGS = tuple(f".{name}{packed}" for name in _NAMES for packed in ("", ".gz", ".zst"))
NOT_SAID = "names must be UTF-8 and end in .jsonl, in the folder itself: move or rename it"
_NO_FOLDER = "there is no such folder yet: it is made when the first telemetry arrives"
OTHER_FOLDERS = ("signals", "evaluations")
"""Folders of signals and evaluations from other systems; not telemetry."""
_LEADS_OUT = "a link that leads outside the folder"
_FIRST_TIME = re.compile(rb'"(?:observedT|t)imeUnixNano":\s*"?([1-9][0-9]{17,19})')


@dataclass(frozen=True, slots=True)
class LandingFile:
    """A regular file of the folder; ``path`` is relative to it.

    ``changed_at_ns`` is the later one of the times of change of its content and of its inode, which
    nothing can set back; None within two seconds of it, since the clock of a file system may not
    tell two changes apart.

    Of an object ``e_tag`` identifies its content, and device and inode are made from its name and
    ``e_tag``.
    """

    path: str
    device: int
    inode: int
    size_bytes: int
    modified_at_ns: int
    changed_at_ns: int | None
    e_tag: str | None = None


class LandingError(UserError):
    """The place of telemetry does not answer, or refuses; the message says why and what to do."""


class FileReplacedError(FileNotFoundError):
    """Under the name of a file is another one than when it was listed."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Head:
    """Number and SHA-256 (hex) of the first bytes of a file."""

    size_bytes: int
    sha256: str


class Landing:
    """Reader of the landing folder at ``root``; see ``LandingSource``."""

    grows = True
    objects = None

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def location(self) -> Path:
        """The full name of the folder."""
        return self.root.absolute()

    @property
    def folder(self) -> Path:
        """The folder."""
        return self.root

    def where(self, path: str = "") -> str:
        """Return the name of a file with that of the folder."""
        return str(self.root / path)

    def shown(self, path: str) -> str:
        """Return the path in the folder."""
        return path

    def relative(self, given: str) -> str:
        """Return the path in the folder of a file that was named in any way."""
        full = Path(given).absolute()
        is_inside = full.is_relative_to(self.location)
        return full.relative_to(self.location).as_posix() if is_inside else given

    def shell_input(self, path: str, command: str) -> str:
        """Return the command with the name of the file."""
        return f"{command} {shlex.quote(self.where(path))}"

    def list_files(
        self, known: Collection[tuple[int, int]] = ()
    ) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return all telemetry files, sorted by path, and skipped entries with content.

        A file with several names (hard links) is listed once. The folders ``signals`` and
        ``evaluations`` are skipped. Links that lead outside the folder are not followed. Files of
        ``known`` devices and inodes are listed under any name: a rotation may have renamed them.
        """
        files: dict[tuple[int, int], LandingFile] = {}
        passed_over: list[SkippedFile] = []
        # Names that are read come first: of several names of a file the first is kept.
        for relative, entry in sorted(
            self._walk(passed_over), key=lambda entry: (not is_read(entry[0]), entry[0])
        ):
            if is_read(relative) or (known and _identity(entry) in known):
                self._add(entry, relative, files, passed_over)
            elif _identity(entry) not in files and not _is_empty(entry):
                passed_over.append(SkippedFile(_readable(relative), why_not_read(relative)))
        return sorted(files.values(), key=lambda file: file.path), passed_over

    def fingerprint(self) -> str:
        """Return a text that changes with any file: its path, inode, size and time of change.

        Much faster than to list the files. It differs each time while a file was changed within
        the last two seconds, see ``LandingFile``.
        """
        now_ns = time.time_ns()
        seen, folders = list[str](), [str(self.root)]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        else:
                            seen.append(f"{entry.path}\0{_look(entry, now_ns)}")
            except OSError as error:  # it is gone meanwhile, or closed to us
                seen.append(f"{folder}\0{error.strerror}")
        content = "\0".join(sorted(seen)).encode(errors="surrogateescape")
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def list_external(self, kind: str) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return the ``*.jsonl`` files of ``signals`` or ``evaluations``, and skipped files.

        Both are sorted by path. Links that lead outside the landing folder are not followed.
        """
        found: list[LandingFile] = []
        passed_over: list[SkippedFile] = []
        folder = self.root / kind
        for path in sorted(folder.rglob("[!.]*")):
            if not path.is_file():
                continue
            relative = path.relative_to(self.root).as_posix()
            if self._leads_out(path):
                passed_over.append(SkippedFile(_readable(relative), _LEADS_OUT))
            elif (
                path.parent == folder
                and path.suffix == ".jsonl"
                and relative == _readable(relative)
            ):
                found.append(_landing_file(relative, path.stat()))
            elif not _is_empty(path):
                passed_over.append(SkippedFile(_readable(relative), NOT_SAID))
        return found, passed_over

    def open(self, file: LandingFile) -> BinaryIO:
        """Open a file; raises FileNotFoundError if it has been moved."""
        handle = (self.root / file.path).open("rb")
        status = os.fstat(handle.fileno())
        if (status.st_dev, status.st_ino) != (file.device, file.inode):
            handle.close()
            raise FileReplacedError(f"{file.path} is another file than when it was listed")
        return handle

    def open_elsewhere(self, file: LandingFile, head: Head) -> BinaryIO:
        """Open a file on another machine, where the device has another number."""
        handle = (self.root / file.path).open("rb")
        inode = os.fstat(handle.fileno()).st_ino
        if inode != file.inode or read_head(handle, head.size_bytes) != head:
            handle.close()
            raise FileReplacedError(f"{file.path} is another file here than where it was listed")
        return handle

    def prefetch(self, files: Sequence[LandingFile]) -> None:
        """Do nothing: a file is opened at once."""

    def delete(self, file: LandingFile) -> bool:
        """Delete a file; see ``LandingSource.delete``."""
        path = self.root / file.path
        try:
            status = path.stat()
            if status.st_size != file.size_bytes or is_open_elsewhere(path) is not False:
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _walk(self, passed_over: list[SkippedFile]) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield the path in the landing folder and the entry of all that is no folder.

        A link to a folder is never followed; one that leads elsewhere in here need not be.
        """
        folders = [("", str(self.root))]
        while folders:
            above, folder = folders.pop()
            try:
                with os.scandir(folder) as found:
                    entries = [entry for entry in found if not entry.name.startswith(".")]
            except OSError as error:
                is_missing = isinstance(error, FileNotFoundError) and not above
                reason = _NO_FOLDER if is_missing else f"cannot be listed: {error}"
                passed_over.append(SkippedFile(str(error.filename), reason))
                continue
            for entry in entries:
                relative = above + entry.name
                if not _is_folder(entry):
                    yield relative, entry
                elif relative in OTHER_FOLDERS:
                    continue
                elif not entry.is_symlink():
                    folders.append((f"{relative}/", entry.path))
                elif self._leads_out(Path(entry.path)):
                    passed_over.append(SkippedFile(_readable(relative), _LEADS_OUT))

    def _add(
        self,
        entry: os.DirEntry[str],
        relative: str,
        files: dict[tuple[int, int], LandingFile],
        passed_over: list[SkippedFile],
    ) -> None:
        if _readable(relative) != relative:
            passed_over.append(SkippedFile(_readable(relative), "its name is not UTF-8: rename it"))
            return
        try:
            if entry.is_symlink() and self._leads_out(Path(entry.path)):
                passed_over.append(SkippedFile(relative, _LEADS_OUT))
                return
            status = entry.stat()
        except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself
            passed_over.append(SkippedFile(relative, f"cannot be looked at: {error}"))
            return
        if not stat.S_ISREG(status.st_mode):
            passed_over.append(SkippedFile(relative, "not a regular file"))
            return
        files.setdefault((status.st_dev, status.st_ino), _landing_file(relative, status))

    def _leads_out(self, path: Path) -> bool:
        return path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_empty(entry: os.DirEntry[str] | Path) -> bool:
    """Return True if a file has nothing to read: it is not listed, as a bucket's marks are not."""
    try:
        return entry.is_file() and entry.stat().st_size == 0
    except OSError:  # a link to itself, or no permission
        return False


def _landing_file(path: str, status: os.stat_result) -> LandingFile:
    changed_at_ns = _changed_at_ns(status, time.time_ns())
    identity = (status.st_dev, status.st_ino)
    return LandingFile(path, *identity, status.st_size, status.st_mtime_ns, changed_at_ns)


def _changed_at_ns(status: os.stat_result, now_ns: int) -> int | None:
    """Return when a file was last changed; None if that is new, see ``LandingFile``."""
    content_ns, inode_ns = status.st_mtime_ns, status.st_ctime_ns
    changed_ns = max(inode_ns, content_ns)
    return changed_ns if changed_ns < now_ns - _SETTLED_NS else None


def _look(entry: os.DirEntry[str], now_ns: int) -> str:
    """Return inode, size and time of change of a file; with the present time if that is new."""
    try:
        status = entry.stat()
    except OSError as error:  # a link to nothing
        return str(error.strerror)
    return f"{status.st_ino} {status.st_size} {_changed_at_ns(status, now_ns) or now_ns}"


def is_read(name: str) -> bool:
    """Return True if files with such a name are read."""
    return name.endswith(_ENDINGS)


def why_not_read(name: str) -> str:
    """Return why files with such a name are not read."""
    if name.lower().endswith((".bz2", ".xz", ".zip")):
        return "only .gz and .zst can be unpacked: unpack it first"
    return "names must end in .jsonl, .json or .pb, optionally .gz or .zst: rename it or move it"


def summarize_skipped(skipped: Iterable[SkippedFile]) -> Iterator[tuple[str, str]]:
    """Yield names, the first ones and the number of the others, and the reason they share."""
    by_reason: dict[str, list[str]] = {}
    for file in skipped:
        by_reason.setdefault(file.reason, []).append(file.path)
    for reason, paths in by_reason.items():
        others = len(paths) - _MAX_NAMES
        more = f" and {others} more" if others > 0 else ""
        yield f"{', '.join(paths[:_MAX_NAMES])}{more}", reason


def _identity(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    try:
        status = entry.stat()
    except OSError:  # a link to itself, or to nothing
        return None
    return status.st_dev, status.st_ino


def _readable(path: str) -> str:
    """Return the path with replacement characters for bytes that are not UTF-8."""
    return path if path.isascii() else os.fsencode(path).decode(errors="replace")


def read_head(handle: BinaryIO, size_bytes: int = HEAD_BYTES) -> Head:
    """Hash the first ``size_bytes`` bytes, or as many as there are (at most 4 KiB).

    The position of ``handle`` does not change.
    """
    head = read_at(handle, min(size_bytes, HEAD_BYTES), 0)
    return Head(len(head), hashlib.sha256(head).hexdigest())


def first_time_ns(handle: BinaryIO, position: int = 0) -> int | None:
    """Return a time near a position of a file (nanoseconds since 1970)."""
    found = _FIRST_TIME.search(read_at(handle, 64 * 1024, position))
    return int(found.group(1)) if found else None


def is_open_elsewhere(path: Path) -> bool | None:
    """Return True if a file is open already, in any process; None if the system cannot tell.

    Linux grants a lease for writing only on a file that is open once; it is returned at once.

    Raises:
        OSError: The file cannot be opened.
    """
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        # A program that opens the file meanwhile waits; the signal of that would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except AttributeError:  # not on this system
        return None
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EBUSY) else None
    finally:
        os.close(descriptor)
    return False


class LandingSource(Protocol):
    """Files with telemetry and signals, by path."""

    @property
    def location(self) -> Path | str:
        """The place, as ``open_landing`` takes it."""

    @property
    def folder(self) -> Path | None:
        """The folder of this machine that the files are in; None if they are elsewhere."""

    @property
    def objects(self) -> "ObjectLanding | None":
        """The same files if they are objects, which can be replaced as a whole."""

    @property
    def grows(self) -> bool:
        """True if files may be appended to, renamed and emptied; False if they never change."""

    def where(self, path: str = "") -> str:
        """Return the full name of a file, or of the place, to show to users."""

    def shown(self, path: str) -> str:
        """Return the name of a file to show next to that of the place, or of several places."""

    def relative(self, given: str) -> str:
        """Return the path of a file that users named by its path or its full name."""

    def shell_input(self, path: str, command: str) -> str:
        """Return a shell command that gives a file to a command, whose options are complete."""

    def list_files(
        self, known: Collection[tuple[int, int]] = ()
    ) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return all telemetry files, sorted by path, and skipped entries.

        Files of ``known`` devices and inodes are listed under any name.

        Raises:
            LandingError: The place does not answer, or refuses.
        """

    def list_external(self, kind: str) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return the ``*.jsonl`` files of ``signals`` or ``evaluations``; as ``list_files``."""

    def fingerprint(self) -> str:
        """Return a text that changes with any file; raises as ``list_files``."""

    def delete(self, file: LandingFile) -> bool:
        """Delete a file unless it has changed, or another program has it open, or may have.

        Returns:
            True if it was deleted.

        Raises:
            OSError: It cannot be deleted.
            LandingError: The place does not answer.
        """

    def prefetch(self, files: Sequence[LandingFile]) -> None:
        """Prepare to open files, in this order, if opening them one by one takes longer.

        Raises:
            LandingError: The place does not answer.
        """

    def open(self, file: LandingFile) -> BinaryIO:
        """Open a file that was listed.

        Raises:
            FileNotFoundError: It was moved, deleted or replaced; perhaps only when it is read.
            OSError: It cannot be read.
            LandingError: The place does not answer.
        """

    def open_elsewhere(self, file: LandingFile, head: Head) -> BinaryIO:
        """Open a file that another machine listed, and whose first bytes are known.

        Raises as ``open``.
        """


def open_landing(location: Path | str) -> LandingSource:
    """Return the files at a place, a folder or the URL of an object store; nothing is read yet.

    Raises:
        UnknownStoreError: There is no such kind of store, or its client is not installed.
    """
    if isinstance(location, Path):
        return Landing(location)
    store = open_object_store(location)
    from evaluation_pipelines.storage.object_landing import ObjectLanding  # slow, rarely needed

    return ObjectLanding(store)
