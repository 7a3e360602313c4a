"""What has arrived in the landing folder and is not read yet."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from evaluation_pipelines.storage.landing import LandingFile, SkippedFile, first_time_ns, read_head
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.records import SourceFile
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines.telemetry.reading import open_documents


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file with unread bytes.

    Attributes:
        file: Where it lies now.
        source: What the ledger knows of it; None for a file that is new, or that was emptied or
            replaced since it was read.
        generation: How many files of the same device and inode were known before.
        first_time_ns: A time near its beginning (nanoseconds since 1970).
    """

    file: LandingFile
    source: SourceFile | None
    generation: int
    first_time_ns: int

    @property
    def position(self) -> int:
        """Bytes that are read already."""
        return self.source.position if self.source else 0


def find_unread_files(stores: Stores) -> tuple[list[UnreadFile], list[SkippedFile]]:
    """All files with unread bytes, the oldest telemetry first, and what is not read at all.

    A rotated backup so comes before the live file that follows it.
    """
    files, passed_over = stores.landing.list_files()
    known = SourceFiles(stores.ledger).all()
    newest = newest_generations(known)
    generations = Counter((each.device, each.inode) for each in known)
    arrivals: list[UnreadFile] = []
    for file in files:
        identity = (file.device, file.inode)
        if file.size_bytes == 0:
            continue
        try:
            with stores.landing.open(file) as handle:
                source = newest.get(identity)
                if source is not None and not is_same(handle, source):
                    source = None
                is_stream = file_format(handle).is_stream
                time = first_time_ns(handle) or file.modified_at_ns
        except OSError as error:
            passed_over.append(SkippedFile(file.path, f"cannot be read: {error}"))
            continue
        if source is None or is_unread(source, file.size_bytes, is_stream=is_stream):
            arrivals.append(UnreadFile(file, source, generations[identity], time))
    return sorted(arrivals, key=lambda each: (each.first_time_ns, each.file.path)), passed_over


def new_file_id(file: LandingFile, generation: int) -> str:
    """Identity of a file; ``generation`` counts those before it that had its device and inode."""
    return f"{file.device:x}-{file.inode:x}-{generation}"


def newest_generations(known: Iterable[SourceFile]) -> dict[tuple[int, int], SourceFile]:
    """The last of the files that had a device and inode in turn.

    By the number in its id, not by when it was seen: clocks are set back.
    """
    newest: dict[tuple[int, int], SourceFile] = {}
    for each in known:
        before = newest.setdefault((each.device, each.inode), each)
        if _generation(each) > _generation(before):
            newest[each.device, each.inode] = each
    return newest


def _generation(source: SourceFile) -> int:
    return int(source.file_id.rpartition("-")[2])


def holds_complete_line(stores: Stores, arrival: UnreadFile) -> bool:
    """Whether an ingest would get anything out of a file, not only the beginning of a line."""
    try:
        with stores.landing.open(arrival.file) as handle:
            documents = open_documents(handle, arrival.file.path, stores.settings)
            return next(documents.read(arrival.position), None) is not None
    except OSError:  # moved meanwhile: the next look finds it under its new name
        return False


def is_unread(source: SourceFile, size_bytes: int, *, is_stream: bool) -> bool:
    """Whether a known file holds more than was read.

    The position in a compressed stream counts decompressed bytes: it cannot tell.
    """
    done = source.finished_size_bytes if is_stream else source.position
    return done < size_bytes


def is_same(handle: BinaryIO, source: SourceFile) -> bool:
    """Whether an open file is the one the ledger knows: it did not shrink and begins the same.

    Its size is taken now: another ingest may have read on since the folder was listed.
    """
    least = source.finished_size_bytes if file_format(handle).is_stream else source.position
    if os.fstat(handle.fileno()).st_size < least:
        return False
    head = read_head(handle, source.head_bytes)
    return (head.size_bytes, head.sha256) == (source.head_bytes, source.head_sha256)


@dataclass(frozen=True, slots=True)
class IngestLag:
    """What is read of a file.

    Attributes:
        path: Where it lies, or lay last, inside the landing folder.
        unread_bytes: Bytes on disk that are still to be read; None when the file is gone.
        newest_event: Time of the newest event read from it; None when there is none.
        read_bytes: Bytes read so far (of a compressed file: decompressed ones).
        size_bytes: Its size; None when it is gone.
    """

    path: str
    unread_bytes: int | None
    newest_event: datetime | None
    read_bytes: int
    size_bytes: int | None


def ingest_lags(stores: Stores) -> tuple[list[IngestLag], list[SkippedFile]]:
    """Every file that is or was in the landing folder, and what lies there but is not read.

    Of a file that was emptied and started again only the newest generation is there.
    """
    files, passed_over = stores.landing.list_files()
    present = {(file.device, file.inode): file for file in files}
    lags: list[IngestLag] = []
    for identity, source in newest_generations(SourceFiles(stores.ledger).all()).items():
        file = present.pop(identity, None)
        size = file.size_bytes if file else None
        unread = None if size is None else _unread_bytes(source, size)
        path = file.path if file else source.path
        lags.append(IngestLag(path, unread, source.last_event_time, source.position, size))
    unknown = (
        IngestLag(file.path, file.size_bytes, None, 0, file.size_bytes) for file in present.values()
    )
    return [*lags, *unknown], passed_over


def _unread_bytes(source: SourceFile, size_bytes: int) -> int:
    """All of them for a file that is shorter than what was read: it began anew."""
    if source.finished_size_bytes == size_bytes:
        return 0
    return size_bytes - source.position if size_bytes >= source.position else size_bytes
