"""What both kinds of landing files need to be written anew without what was forgotten."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.domain.prune import Pruner
from evaluation_pipelines.erasure.pruned_copy import Piece, packed, pieces
from evaluation_pipelines.storage.landing import Head, LandingFile
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.received import organization_of
from evaluation_pipelines.telemetry.unread_files import is_same_file, newest_generations


class KeptError(Exception):
    """A file still has something, or its older versions may have; the message says why."""


def pruned(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of a file, each with what is left of it."""
    pruner = Pruner(context.forgotten, organization_of(file.path))
    return pieces(handle, context.stores.settings, pruner)


def source_file(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> SourceFile | None:
    """Return the entry of a file in the ledger, None if it was never read."""
    known: Mapping[tuple[int, int], SourceFile] = newest_generations(
        SourceFiles(context.stores.ledger).with_inodes({file.inode})
    )
    source = known.get((file.device, file.inode))
    return source if source is not None and is_same_file(handle, source) else None


def write_pruned(
    context: ErasureContext,
    file: LandingFile,
    handle: BinaryIO,
    new: BinaryIO,
    source: SourceFile | None,
) -> int:
    """Write what is left of a file; return the position in it up to which it was read."""
    read, position = 0 if source is None else source.position, 0
    with packed(new, file_format(handle)) as stream:
        for piece in pruned(context, file, handle):
            stream.write(piece.kept)
            position += len(piece.kept) if piece.end <= read else 0
    new.flush()
    return position


def add_entry(
    context: ErasureContext,
    source: SourceFile,
    identity: tuple[int, int],
    head: Head,
    *,
    size_bytes: int,
    position: int,
    was_finished: bool,
) -> None:
    """Add the new file to the ledger, read as far as the old one."""
    files, (device, inode) = SourceFiles(context.stores.ledger), identity
    same = [each for each in files.with_inodes({inode}) if each.device == device]
    files.add(
        replace(
            source,
            file_id=f"{device:x}-{inode:x}-{len(same)}",
            device=device,
            inode=inode,
            head_bytes=head.size_bytes,
            head_sha256=head.sha256,
            size_bytes=size_bytes,
            changed_at_ns=None,
            position=position,
            finished_size_bytes=size_bytes if was_finished else 0,
        )
    )
