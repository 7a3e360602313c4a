"""Landing files with unread bytes, in the order of their rotation, and how far ingest is behind."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time_ns
from typing import BinaryIO

from evaluation_pipelines.storage.landing import (
    LandingFile,
    SkippedFile,
    first_time_ns,
    is_read,
    read_head,
    why_not_read,
)
from evaluation_pipelines.storage.raw_lines import size_of
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.ingest_batches import SeenFile, SourceFile, SourceFiles
from evaluation_pipelines.telemetry.reading import open_documents

_ENDING = r"\.(?:jsonl|json|pb)(?:\.(?:gz|zst))?"
_ENDINGS = re.compile(_ENDING)
_BACKUP = re.compile(rf"{_ENDING}\.(\d{{1,4}})\Z")
_STAMP = re.compile(
    r"(?:\A|[-_.])(20\d\d([-_.]?)(?:0[1-9]|1[0-2])\2(?:0[1-9]|[12]\d|3[01])[\dTZ:._+-]*)"
    r"(?:-(?:size|time|manual))?\Z"
)
"""A date, and more of a time; a number alone may be that of a pod, a user or a host."""

_LIVE = (1,)


def place_in_series(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the series of a file and a rank in it, which is greater for a newer file.

    A rotation adds a time to the name or a number behind it: of the same series as
    ``agents.jsonl``, which is the newest, are ``agents-2026-11-28T09-00-00.000-size.jsonl`` and
    ``agents.jsonl.1`` (``.2`` is older). ``agents-1.jsonl`` and ``agents-2.jsonl`` are two series:
    both may be live.
    """
    folder, _, name = path.rpartition("/")
    backup = _BACKUP.search(name)
    stem = _ENDINGS.sub("", name[: backup.start(1) - 1] if backup else name)
    stamp = _STAMP.search(stem)
    series = f"{folder}/{stem[: stamp.start()] if stamp else stem}"
    if backup:
        return series, (0, -int(backup[1]))
    return series, (0, *map(int, re.findall(r"\d+", stamp[1]))) if stamp else _LIVE


_RESTING_NS = 2_000_000_000
_DAY_NS = 24 * 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """Landing file with unread bytes.

    Attributes:
        file: The file in the landing folder.
        source: Ledger record of the file; None for a new file, or one that was emptied or replaced
            since it was read.
        generation: Number of files with the same device and inode known before.
        first_time_ns: A time near the beginning of the file (nanoseconds since 1970).
        is_final: True if the file no longer grows.
    """

    file: LandingFile
    source: SourceFile | None
    generation: int
    first_time_ns: int
    is_final: bool = False

    @property
    def position(self) -> int:
        """Bytes that have been read."""
        return self.source.position if self.source else 0

    @property
    def unread_bytes(self) -> int:
        """Unread bytes on disk."""
        size = self.file.size_bytes
        return size if self.source is None else _unread_bytes(self.source, size)


def find_unread_files(
    stores: Stores, *, in_order: bool = True
) -> tuple[list[UnreadFile], list[SkippedFile]]:
    """Return all files with unread bytes, the oldest telemetry first, and skipped entries.

    A rotated backup therefore comes before the live file that follows it. A file is not opened if
    it has not changed since it was read to its end. Unless the files are wanted ``in_order``, new
    ones are not opened: they come by the time of their last change.

    Raises:
        LandingError: The place of the files does not answer.
    """
    source_files = SourceFiles(stores.ledger)
    seen = source_files.last_seen()
    files, skipped = stores.landing.list_files({(file.device, file.inode) for file in seen})
    unchanged = {file for file in seen if file.changed_at_ns is not None}
    changed = [file for file in files if file.size_bytes and _seen(file) not in unchanged]
    known = source_files.with_inodes({file.inode for file in changed})
    newest = newest_generations(known)
    generations = Counter((source_file.device, source_file.inode) for source_file in known)
    if in_order:
        stores.landing.prefetch([file for file in changed if _identity(file) not in newest])
    final = _final_files(files)
    unread: list[UnreadFile] = []
    read: dict[str, SeenFile] = {}
    for file in changed:
        identity = _identity(file)
        try:
            source, has_unread, time = _look(stores, file, newest.get(identity), in_order=in_order)
        except OSError as error:
            skipped.append(SkippedFile(stores.landing.shown(file.path), f"cannot be read: {error}"))
            continue
        if source is None and not is_read(file.path):
            # Not the file that had this inode when it was read.
            skipped.append(SkippedFile(stores.landing.shown(file.path), why_not_read(file.path)))
        elif source is None or has_unread or (source.unfinished and file in final):
            unread.append(
                UnreadFile(file, source, generations[identity], time, is_final=file in final)
            )
        elif source.unfinished is not None:
            skipped.append(SkippedFile(stores.landing.shown(file.path), source.unfinished))
        elif file.changed_at_ns is not None:
            read[source.file_id] = _seen(file)
    source_files.note_unchanged(read)
    unread.sort(key=lambda unread_file: (unread_file.first_time_ns, unread_file.file.path))
    return unread, skipped


def unread_since(stores: Stores, unread: Sequence[UnreadFile]) -> datetime | None:
    """Return since when the oldest unread bytes wait; None if there are none.

    A file that grows was changed just now, whatever waits in it: its first unread record tells more
    than its last change. They cannot wait for longer than since the file was read last.

    Raises:
        LandingError: The place of the files does not answer.
    """
    return min((_since(stores, file) for file in unread), default=None)


def _since(stores: Stores, unread: UnreadFile) -> datetime:
    time_ns = unread.file.modified_at_ns
    with suppress(OSError), stores.landing.open(unread.file) as handle:  # moved: its last change
        if not file_format(handle).is_stream:
            time_ns = min(first_time_ns(handle, unread.position) or time_ns, time_ns)
    since = datetime.fromtimestamp(time_ns / 1e9, UTC)
    read_at = None if unread.source is None else unread.source.last_read_at
    return since if read_at is None else max(since, read_at)


def _final_files(files: Sequence[LandingFile]) -> set[LandingFile]:
    """Return files that no longer grow: for a day, or replaced by a newer one of a rotation.

    A collector may still have the last bytes of a file that it rotates: it must be at rest.
    """
    places = {file: place_in_series(file.path) for file in files}
    newest: dict[str, tuple[int, ...]] = {}
    for series, rank in places.values():
        newest[series] = max(rank, newest.get(series, rank))
    now_ns = time_ns()
    return {
        file
        for file, (series, rank) in places.items()
        if now_ns - file.modified_at_ns > (_RESTING_NS if rank < newest[series] else _DAY_NS)
    }


def _look(
    stores: Stores, file: LandingFile, source: SourceFile | None, *, in_order: bool
) -> tuple[SourceFile | None, bool, int]:
    """Return the ledger's record of a file, whether it has unread bytes, and a time of it.

    A file that never changes is the one of its record, and is not opened for that.
    """
    if not stores.landing.grows and source is not None:
        return source, is_unread(source, file.size_bytes, is_stream=True), file.modified_at_ns
    if not in_order and source is None:
        return None, True, file.modified_at_ns
    with stores.landing.open(file) as handle:
        if source is not None and not is_same_file(handle, source):
            source = None
        is_stream = file_format(handle).is_stream
        time = first_time_ns(handle) or file.modified_at_ns
    has_unread = source is None or is_unread(source, file.size_bytes, is_stream=is_stream)
    return source, has_unread, time


def _identity(file: LandingFile) -> tuple[int, int]:
    return file.device, file.inode


def _seen(file: LandingFile) -> SeenFile:
    return SeenFile(file.device, file.inode, file.size_bytes, file.changed_at_ns)


def new_file_id(file: LandingFile, generation: int) -> str:
    """Return the id of a file; ``generation`` counts earlier files with its device and inode."""
    return f"{file.device:x}-{file.inode:x}-{generation}"


def newest_generations(known: Iterable[SourceFile]) -> dict[tuple[int, int], SourceFile]:
    """Return the newest file for each device and inode.

    Newest by the number in its id, not by time: clocks can be set back.
    """
    newest: dict[tuple[int, int], SourceFile] = {}
    for file in known:
        before = newest.setdefault((file.device, file.inode), file)
        if _generation(file) > _generation(before):
            newest[file.device, file.inode] = file
    return newest


def known_identities(stores: Stores) -> set[tuple[int, int]]:
    """Return device and inode of all files that were ever read."""
    return {(file.device, file.inode) for file in SourceFiles(stores.ledger).last_seen()}


def _generation(source: SourceFile) -> int:
    return int(source.file_id.rpartition("-")[2])


def has_complete_line(stores: Stores, unread_file: UnreadFile) -> bool | None:
    """Return whether a file has a complete unread line, or ``None`` if it cannot be read."""
    try:
        with stores.landing.open(unread_file.file) as handle:
            documents = open_documents(handle, stores.settings, is_final=unread_file.is_final)
            return next(documents.read(unread_file.position), None) is not None
    except OSError:  # no permission, or moved: the next listing has its new name
        return None


def is_unread(source: SourceFile, size_bytes: int, *, is_stream: bool) -> bool:
    """Return True if a known file has unread bytes.

    For a compressed stream the size read to its end decides: its position counts decompressed
    bytes. So it does for a file that never changes, which may have an incomplete end.
    """
    read_bytes = source.finished_size_bytes if is_stream else source.position
    return read_bytes < size_bytes


def is_same_file(handle: BinaryIO, source: SourceFile) -> bool:
    """Return True if an open file is the file in the ledger: not shorter, with the same head.

    Measures the size again: another ingest may have read more since the folder was listed.
    """
    min_bytes = source.finished_size_bytes if file_format(handle).is_stream else source.position
    if size_of(handle) < min_bytes:
        return False
    head = read_head(handle, source.head_bytes)
    return (head.size_bytes, head.sha256) == (source.head_bytes, source.head_sha256)


@dataclass(frozen=True, slots=True)
class IngestLag:
    """Read progress of one landing file.

    Attributes:
        path: Current or last path in the landing folder.
        unread_bytes: Unread bytes on disk; None if the file is gone.
        newest_event: Time of the newest event read from the file; None without events.
        read_bytes: Bytes read so far (decompressed bytes of a compressed file).
        size_bytes: Size of the file; None if it is gone.
    """

    path: str
    unread_bytes: int | None
    newest_event: datetime | None
    read_bytes: int
    size_bytes: int | None


def ingest_lags(stores: Stores) -> tuple[list[IngestLag], list[SkippedFile]]:
    """Return the progress of every file that is or was in the landing folder, and skipped entries.

    For a file that was emptied and started again, or rewritten, only the newest one is included,
    and so for an object that was replaced.
    """
    newest = newest_generations(SourceFiles(stores.ledger).all())
    files, skipped = stores.landing.list_files(newest.keys())
    present = {(file.device, file.inode): file for file in files}
    lags: list[IngestLag] = []
    here = {
        (source_file.path, source_file.first_seen_at)
        for key, source_file in newest.items()
        if key in present
    }
    replaced = set() if stores.landing.grows else {file.path for file in files}
    for identity, source in newest.items():
        file = present.pop(identity, None)
        if file is None and (
            (source.path, source.first_seen_at) in here or source.path in replaced
        ):
            continue  # it was rewritten, without erased events, or by others
        size = file.size_bytes if file else None
        if file and source.unfinished is not None and size == source.finished_size_bytes:
            skipped.append(SkippedFile(stores.landing.shown(file.path), source.unfinished))
        unread = None if size is None else _unread_bytes(source, size)
        path = file.path if file else source.path
        lags.append(IngestLag(path, unread, source.last_event_time, source.position, size))
    unknown = (
        IngestLag(file.path, file.size_bytes, None, 0, file.size_bytes) for file in present.values()
    )
    return [*lags, *unknown], skipped


def _unread_bytes(source: SourceFile, size_bytes: int) -> int:
    """Return the unread bytes on disk; all of them if the file is shorter than what was read.

    The position in a compressed file counts decompressed bytes. It is usually beyond the size.
    """
    finished = source.finished_size_bytes
    if finished == size_bytes:
        return 0
    if size_bytes >= source.position:
        return size_bytes - source.position
    return size_bytes - finished if size_bytes > finished else size_bytes
