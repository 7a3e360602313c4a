"""How far reading is behind writing, file by file."""

from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.adapters.landing import PassedOver
from evaluation_pipelines.adapters.ledger.records import SourceFile
from evaluation_pipelines.stages.arrivals import newest_generations
from evaluation_pipelines.stages.stores import Stores


@dataclass(frozen=True, slots=True)
class SourceLag:
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


def source_lags(stores: Stores) -> tuple[list[SourceLag], list[PassedOver]]:
    """Every file that is or was in the landing folder, and what lies there but is not read.

    Of a file that was emptied and started again only the newest generation is there.
    """
    files, passed_over = stores.landing.list_files()
    present = {(file.device, file.inode): file for file in files}
    lags: list[SourceLag] = []
    for identity, source in newest_generations(stores.ledger.files.all()).items():
        file = present.pop(identity, None)
        size = file.size_bytes if file else None
        unread = None if size is None else _unread_bytes(source, size)
        path = file.path if file else source.path
        lags.append(SourceLag(path, unread, source.last_event_time, source.position, size))
    unknown = (
        SourceLag(file.path, file.size_bytes, None, 0, file.size_bytes) for file in present.values()
    )
    return [*lags, *unknown], passed_over


def _unread_bytes(source: SourceFile, size_bytes: int) -> int:
    """All of them for a file that is shorter than what was read: it began anew."""
    if source.finished_size_bytes == size_bytes:
        return 0
    return size_bytes - source.position if size_bytes >= source.position else size_bytes
