"""Landing files that were read to their end, and may be deleted."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.unread_files import (
    is_same_file,
    is_unread,
    known_identities,
    newest_generations,
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A landing file of which nothing is unread."""

    file: LandingFile
    changed_on: date


def files_read(stores: Stores) -> Iterator[ReadFile]:
    """Yield the landing files that were read to their end."""
    known = newest_generations(SourceFiles(stores.ledger).all())
    files, _ = stores.landing.list_files(known_identities(stores))
    for file in files:
        source = known.get((file.device, file.inode))
        if source is not None and _is_read(stores, file, source):
            changed = datetime.fromtimestamp(file.modified_at_ns / 1e9, UTC)
            yield ReadFile(file, changed.date())


def _is_read(stores: Stores, file: LandingFile, source: SourceFile) -> bool:
    if not stores.landing.grows:
        return source.unfinished is None and source.finished_size_bytes == file.size_bytes
    try:
        with stores.landing.open(file) as handle:
            if not is_same_file(handle, source) or source.unfinished is not None:
                return False
            is_stream = file_format(handle).is_stream
    except OSError:
        return False
    return not is_unread(source, file.size_bytes, is_stream=is_stream)
