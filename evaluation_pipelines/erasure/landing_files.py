"""Landing files that still have telemetry of what was forgotten: listed, and written anew.

A file is written anew next to itself and renamed. Before that, the ledger gets an entry of the new
file with the position that the old one was read to: whichever of the two is there after a kill,
nothing of it is read again.
"""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.domain.prune import Pruner
from evaluation_pipelines.erasure.pruned_copy import Piece, packed, pieces
from evaluation_pipelines.storage.landing import LandingFile, read_head
from evaluation_pipelines.storage.lease_owner import is_gone, new_owner
from evaluation_pipelines.storage.open_files import is_open_elsewhere
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.records import SourceFile
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines.telemetry.otel_logs import name_files
from evaluation_pipelines.telemetry.received import RECEIVED, organization_of
from evaluation_pipelines.telemetry.unread_files import (
    is_same_file,
    known_identities,
    newest_generations,
)

_SAID = ("signals", "evaluations")
_RELEASE_SECONDS = 5.0
_STAGED = ".{}.erased"
_NOT_ASKED = "forget --rewrite-landing writes it anew"
_OPEN = (
    "another program has it open: stop that program, or run this again when it has begun another "
    "file"
)
_UNKNOWN = "the system cannot tell whether another program has it open"
_READ = "it is being read: run this again"
_LINKED = "it has other names (hard links), which would keep what it has"


class _KeptError(Exception):
    """A file is not written anew; the message says why."""


@dataclass(frozen=True, slots=True)
class LandingTrace:
    """A landing file with telemetry of what was forgotten.

    Attributes:
        path: Relative to the landing folder.
        offsets: Where the lines begin that have it, or could not be looked at.
        kept_because: Why the file still has it; None if it was written anew without.
    """

    path: str
    offsets: tuple[int, ...]
    kept_because: str | None = None


def landing_traces(context: ErasureContext, *, rewrite: bool) -> list[LandingTrace]:
    """Return the landing files that have telemetry of what was forgotten.

    With ``rewrite`` those that no other program has open are written anew without it.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    name_files(context.stores)  # a file that a kill left without its name would be overlooked
    landing = context.stores.landing
    files, _ = landing.list_files(known_identities(context.stores))
    said = [each for kind in _SAID for each in landing.list_said(kind)[0]]
    traces = (_trace(context, file, rewrite=rewrite) for file in [*files, *said])
    return [each for each in traces if each is not None]


def _trace(context: ErasureContext, file: LandingFile, *, rewrite: bool) -> LandingTrace | None:
    try:
        with context.stores.landing.open(file) as handle:
            found = [each for each in _pieces(context, file, handle) if _matters(each)]
    except FileNotFoundError:
        return None  # rotated away meanwhile
    except OSError as error:
        return LandingTrace(file.path, (), f"it cannot be read: {error.strerror or error}")
    if not found:
        return None
    trace = LandingTrace(file.path, tuple(each.offset for each in found))
    flaws = [each.why_kept for each in found if each.why_kept is not None]
    if not any(each.has_trace for each in found):
        return replace(trace, kept_because=flaws[0])
    if not rewrite:
        return replace(trace, kept_because=_NOT_ASKED)
    try:
        _rewrite(context, file)
    except _KeptError as error:
        return replace(trace, kept_because=str(error))
    except OSError as error:
        return replace(trace, kept_because=f"it cannot be written: {error.strerror or error}")
    context.done(f"landing {file.path}")
    return replace(trace, kept_because=flaws[0] if flaws else None)


def _matters(piece: Piece) -> bool:
    return piece.has_trace or piece.why_kept is not None


def _pieces(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> Iterator[Piece]:
    pruner = Pruner(context.forgotten, organization_of(file.path))
    return pieces(handle, context.stores.settings, pruner)


def _rewrite(context: ErasureContext, file: LandingFile) -> None:
    """Write a file anew while no ingest reads it and no other program has it open."""
    path = context.stores.landing.root / file.path
    _ask_the_service(path, file)
    _refuse_shared(path)
    landed_bytes = path.stat().st_size
    staged = path.with_name(_STAGED.format(path.name))
    staged.unlink(missing_ok=True)  # of a run that was killed
    with context.stores.landing.open(file) as handle, _leased(context, file, handle) as source:
        try:
            position = _write(context, file, handle, staged, source)
            size_bytes = staged.stat().st_size
            if size_bytes and source is not None:
                _add_entry(context, source, staged, position, handle)
                context.done(f"position in {file.path}")
            handle.close()  # the only handle that is left would be this one
            _refuse_shared(path)
            if path.stat().st_size != landed_bytes:
                raise _KeptError(_OPEN)
            if size_bytes:
                staged.replace(path)
            else:
                path.unlink()
            _sync(path.parent)
        finally:
            with suppress(FileNotFoundError):
                staged.unlink()
    _remove_empty_folders(path.parent, context.stores.landing.root)


def _ask_the_service(path: Path, file: LandingFile) -> None:
    """Make a file that the service writes read-only until it has begun another one."""
    if not file.path.startswith(f"{RECEIVED}/") or not is_open_elsewhere(path):
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    deadline = time.monotonic() + _RELEASE_SECONDS
    try:
        path.chmod(mode & ~stat.S_IWUSR)
        while is_open_elsewhere(path) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        path.chmod(mode)


def _refuse_shared(path: Path) -> None:
    if path.stat().st_nlink > 1:
        raise _KeptError(_LINKED)
    is_open = is_open_elsewhere(path)
    if is_open is not False:
        raise _KeptError(_OPEN if is_open else _UNKNOWN)


@contextmanager
def _leased(
    context: ErasureContext, file: LandingFile, handle: BinaryIO
) -> Iterator[SourceFile | None]:
    """Keep ingests of a file away; yield its entry in the ledger, None if it was never read."""
    files, owner = SourceFiles(context.stores.ledger), new_owner()
    known: Mapping[tuple[int, int], SourceFile] = newest_generations(
        files.with_inodes({file.inode})
    )
    source = known.get((file.device, file.inode))
    if source is None or not is_same_file(handle, source):
        yield None
        return
    if source.lease_owner is not None and is_gone(source.lease_owner):
        files.release_lease(source.file_id, source.lease_owner, source.lease_epoch)
    seconds = context.stores.settings.lease_seconds
    epoch = files.acquire_lease(source.file_id, owner, seconds, context.clock())
    if epoch is None:
        raise _KeptError(_READ)
    try:
        yield files.get(source.file_id)
    finally:
        files.release_lease(source.file_id, owner, epoch)


def _write(
    context: ErasureContext,
    file: LandingFile,
    handle: BinaryIO,
    staged: Path,
    source: SourceFile | None,
) -> int:
    """Write what is left of a file; return the position in it up to which it was read."""
    read, position = 0 if source is None else source.position, 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(staged, flags, 0o600), "wb") as new:
        with packed(new, file_format(handle)) as stream:
            for piece in _pieces(context, file, handle):
                stream.write(piece.kept)
                position += len(piece.kept) if piece.end <= read else 0
        new.flush()
        os.fsync(new.fileno())
    status = os.fstat(handle.fileno())
    with suppress(PermissionError):  # only the owner of the file and root may
        os.chown(staged, status.st_uid, status.st_gid)
    staged.chmod(stat.S_IMODE(status.st_mode))
    os.utime(staged, ns=(status.st_atime_ns, status.st_mtime_ns))
    return position


def _add_entry(
    context: ErasureContext, source: SourceFile, staged: Path, position: int, handle: BinaryIO
) -> None:
    """Add the new file to the ledger, read as far as the old one."""
    files, status = SourceFiles(context.stores.ledger), staged.stat()
    same = [each for each in files.with_inodes({status.st_ino}) if each.device == status.st_dev]
    with staged.open("rb") as new:
        head = read_head(new)
    was_finished = source.finished_size_bytes == os.fstat(handle.fileno()).st_size
    files.add(
        replace(
            source,
            file_id=f"{status.st_dev:x}-{status.st_ino:x}-{len(same)}",
            device=status.st_dev,
            inode=status.st_ino,
            head_bytes=head.size_bytes,
            head_sha256=head.sha256,
            size_bytes=status.st_size,
            changed_at_ns=None,
            position=position,
            finished_size_bytes=status.st_size if was_finished else 0,
            lease_owner=None,
            lease_until=None,
            lease_epoch=0,
        )
    )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove the folders of received telemetry that have become empty: they name organizations."""
    received = root / "received"
    while folder.is_relative_to(received) and folder != received:
        try:
            folder.rmdir()
        except OSError:  # it is not empty, or gone
            return
        folder = folder.parent
