"""Landing files that still have erased telemetry: listed, and rewritten.

The ledger gets an entry of the new file with the position that the old one was read to. For a file
that is before the new one takes its place: whichever of the two is there after a kill, nothing of
it is read again. An object has no identity before it is written.
"""

import os
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from evaluation_pipelines.erasure.domain.prune import Pruner
from evaluation_pipelines.erasure.selection import ErasureContext
from evaluation_pipelines.storage.landing import (
    FileReplacedError,
    LandingFile,
    is_open_elsewhere,
    read_head,
)
from evaluation_pipelines.storage.lock import INGEST, Hold, LockTimeoutError, held
from evaluation_pipelines.storage.raw_lines import read_at, size_of
from evaluation_pipelines.storage.received_files import RECEIVED, organization_of
from evaluation_pipelines.telemetry.documents import ZSTD, FileFormat, file_format
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.otel_logs import name_files
from evaluation_pipelines.telemetry.reading import open_documents
from evaluation_pipelines.telemetry.unread_files import (
    is_same_file,
    known_identities,
    newest_generations,
)

_SAID = ("signals", "evaluations")
_RELEASE_SECONDS = 5.0
_NOT_ASKED = "forget --rewrite-landing rewrites it"
_OPEN = (
    "another program has it open: stop that program, or run this again after it starts a new file"
)
_CHANGED = "another program has replaced it or added to it meanwhile: run this again"
_UNKNOWN = "the system does not show whether another program has it open"
_LINKED = "it has other names (hard links), which would keep its content"
_REPLACED = "it was replaced meanwhile: run this again"
_VERSIONS = "it was rewritten, but the bucket may keep its older versions: delete these there"
_TOO_LONG = "has a line that is too long or damaged to be looked at"


class _KeptError(Exception):
    """A file still has something, or its older versions may have; the message says why."""


@dataclass(frozen=True, slots=True)
class LandingTrace:
    """A landing file with telemetry of what was forgotten.

    Attributes:
        path: Relative to the landing folder.
        offsets: Where the lines begin that have it, or could not be looked at.
        kept_because: Why the file still has it; None if it was rewritten without.
    """

    path: str
    offsets: tuple[int, ...]
    kept_because: str | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes ``offset`` to ``end`` of a file: what is left of them, and whether that is less.

    ``flaw`` says why they could not be looked at.
    """

    offset: int
    end: int
    kept: bytes
    is_pruned: bool = False
    flaw: str | None = None


def landing_traces(context: ErasureContext, *, rewrite: bool) -> list[LandingTrace]:
    """Return the landing files that have telemetry of what was forgotten.

    With ``rewrite`` those that no other program has open are rewritten without it, each with the
    lock ``ingest``. If it is not free in time, those that are left are kept.

    Raises:
        LockLostError: Another process may ingest by now; files rewritten before stay so.
        LedgerError: The ledger cannot be used.
    """
    name_files(context.stores)  # a file that a kill left without its name would be overlooked
    landing = context.stores.landing
    files, _ = landing.list_files(known_identities(context.stores))
    said = [file for kind in _SAID for file in landing.list_external(kind)[0]]
    traces, not_asked = list[LandingTrace](), None if rewrite else _NOT_ASKED
    for file in (*files, *said):
        trace, is_pruned = _look(context, file)
        if is_pruned and not_asked is None:
            try:
                _rewrite_alone(context, file)
            except LockTimeoutError as error:  # waited for once, not for each file
                not_asked = f"it is being read: {error}"
            except _KeptError as error:
                trace = replace(trace, kept_because=str(error))
            except OSError as error:
                why = f"it cannot be written: {error.strerror or error}"
                trace = replace(trace, kept_because=why)
        if is_pruned and not_asked is not None:
            trace = replace(trace, kept_because=not_asked)
        if trace.offsets or trace.kept_because:
            traces.append(trace)
    return traces


def _look(context: ErasureContext, file: LandingFile) -> tuple[LandingTrace, bool]:
    """Return what a file has, and whether it can be rewritten without it."""
    name = context.stores.landing.shown(file.path)
    try:
        with context.stores.landing.open(file) as handle:
            found = [
                piece for piece in _pieces(context, file, handle) if piece.is_pruned or piece.flaw
            ]
    except FileReplacedError as error:
        return LandingTrace(name, (), f"{error}: run this again"), False
    except FileNotFoundError:  # deleted, or rotated away, meanwhile
        return LandingTrace(name, ()), False
    except OSError as error:
        return LandingTrace(name, (), f"it cannot be read: {error.strerror or error}"), False
    flaw = next((piece.flaw for piece in found if piece.flaw), None)
    offsets = tuple(piece.offset for piece in found)
    return LandingTrace(name, offsets, flaw), any(piece.is_pruned for piece in found)


def _pieces(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> Iterator[_Piece]:
    """Yield a whole file, in order and without gaps; offsets are as those of ingest.

    Raises:
        OSError: The file cannot be read.
    """
    pruner = Pruner(context.forgotten, organization_of(file.path))
    documents = open_documents(handle, context.stores.settings)
    is_stream, end = documents.form.is_stream, 0
    for line in documents.read(0):
        if end < line.offset:  # a byte order mark
            yield _Piece(end, line.offset, read_at(handle, line.offset - end, end))
        length = line.next_offset - line.offset
        end = line.next_offset
        if line.defect is not None or line.is_overlong:
            content = line.text if is_stream else read_at(handle, length, line.offset)
            yield _Piece(line.offset, end, content, flaw=_TOO_LONG)
        elif documents.form is FileFormat.MESSAGES:
            content = read_at(handle, length, line.offset)
            kept = _message(content, pruner)
            yield _Piece(line.offset, end, kept, kept != content)
        else:
            text = pruner.line(line.text)
            newlines = b"\n" * (length - len(line.text)) if text == line.text else b"\n"
            yield _Piece(line.offset, end, (text + newlines) if text else b"", text != line.text)
    if is_stream and documents.unfinished is not None:
        yield _Piece(end, end, b"", flaw=documents.unfinished)
    elif not is_stream and end < size_of(handle):  # an incomplete line is taken out whole, or kept
        content = read_at(handle, size_of(handle) - end, end)
        is_gone = pruner.line(content) is None
        yield _Piece(end, end + len(content), b"" if is_gone else content, is_gone)


def _message(content: bytes, pruner: Pruner) -> bytes:
    """Return what is left of a request of the collector after its length, perhaps compressed."""
    import pyarrow as pa  # slow to import, and rarely needed

    request = message = content[4:]
    if is_packed := message.startswith(ZSTD):
        request = pa.CompressedInputStream(pa.BufferReader(message), "zstd").read()
    left = (pruner.message if looks_like_request(request) else pruner.line)(request)
    if left == request or left is None:
        return b"" if left is None else content
    if is_packed:
        sink: Any = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(left)
        left = cast(bytes, sink.getvalue().to_pybytes())
    return struct.pack(">I", len(left)) + left


def _rewrite_alone(context: ErasureContext, file: LandingFile) -> None:
    """Rewrite a file while no ingest reads it and no other program has it open."""
    landing, timeout_s = context.stores.landing, context.stores.settings.lock_timeout_seconds
    path = None if landing.folder is None else landing.folder / file.path
    # Held for each file: an ingest need not wait until all are written.
    with held(context.stores.ledger, INGEST, timeout_s=timeout_s) as hold:
        if path is not None:
            _ask_the_service(path, file)
            _refuse_shared(path)
        with landing.open(file) as handle, _new_file(path) as new:
            source = _source(context, file, handle)
            position = _write(context, file, handle, new, 0 if source is None else source.position)
            if source is not None:
                is_finished = source.finished_size_bytes == size_of(handle)
                source = replace(source, position=position, finished_size_bytes=int(is_finished))
            if path is None:
                _replace_object(context, file, new, source, hold)
            else:
                _replace_file(context, file, path, handle, new, source, hold)
        context.done(f"landing {file.path}")


def _source(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> SourceFile | None:
    """Return the entry of a file in the ledger, None if it was never read."""
    known = newest_generations(SourceFiles(context.stores.ledger).with_inodes({file.inode}))
    source = known.get((file.device, file.inode))
    return source if source is not None and is_same_file(handle, source) else None


@contextmanager
def _new_file(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file next to the old one, deleted if it stays there; of an object one without name."""
    if path is None:
        with TemporaryFile() as new:
            yield cast(BinaryIO, new)
        return
    staged = _staged(path)
    staged.unlink(missing_ok=True)  # of a run that was killed
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(staged, flags, 0o600), "w+b") as new:
            yield new
    finally:
        staged.unlink(missing_ok=True)


def _staged(path: Path) -> Path:
    return path.with_name(f".{path.name}.erased")


def _write(
    context: ErasureContext, file: LandingFile, handle: BinaryIO, new: BinaryIO, read: int
) -> int:
    """Write what is left of a file; return the position in it up to which it was read."""
    form, position = file_format(handle), 0
    stream: Any = nullcontext(new)
    if form.is_stream:
        import pyarrow as pa  # slow to import, and rarely needed

        own = os.fdopen(os.dup(new.fileno()), "wb")  # it closes what it is given at its end
        stream = pa.CompressedOutputStream(pa.PythonFile(own, mode="w"), form.name.lower())
    with stream as packed:
        for piece in _pieces(context, file, handle):
            packed.write(piece.kept)
            position += len(piece.kept) if piece.end <= read else 0
    new.flush()
    return position


def _add_entry(
    context: ErasureContext, source: SourceFile, new: BinaryIO, identity: tuple[int, int], path: str
) -> None:
    """Add the new file to the ledger, read as far as the old one."""
    files, head, (device, inode) = SourceFiles(context.stores.ledger), read_head(new), identity
    number = sum(source.device == device for source in files.with_inodes({inode}))
    entry = replace(
        source,
        file_id=f"{device:x}-{inode:x}-{number}",
        device=device,
        inode=inode,
        head_bytes=head.size_bytes,
        head_sha256=head.sha256,
        size_bytes=size_of(new),
        changed_at_ns=None,
        finished_size_bytes=source.finished_size_bytes and size_of(new),
    )
    files.add(entry)
    context.done(f"position in {path}")


def _replace_file(
    context: ErasureContext,
    file: LandingFile,
    path: Path,
    handle: BinaryIO,
    new: BinaryIO,
    source: SourceFile | None,
    hold: Hold,
) -> None:
    old, staged = os.fstat(handle.fileno()), _staged(path)
    os.fsync(new.fileno())
    with suppress(PermissionError):  # only the owner of the file and root may
        os.chown(staged, old.st_uid, old.st_gid)
    staged.chmod(stat.S_IMODE(old.st_mode))
    os.utime(staged, ns=(old.st_atime_ns, old.st_mtime_ns))
    status = os.fstat(new.fileno())
    if status.st_size and source is not None:
        _add_entry(context, source, new, (status.st_dev, status.st_ino), file.path)
    handle.close()  # the only handle that is left would be this one
    _refuse_shared(path)
    if _identity(path.stat()) != _identity(old):
        raise _KeptError(_CHANGED)
    hold.check()
    if status.st_size:
        staged.replace(path)
    else:
        path.unlink()
        staged.unlink()  # its folder may go
    descriptor = os.open(path.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    folder, received = path.parent, path.parents[len(Path(file.path).parts) - 1] / RECEIVED
    with suppress(OSError):  # it is not empty, or gone
        while folder.is_relative_to(received) and folder != received:  # they name organizations
            folder.rmdir()
            folder = folder.parent


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_size


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


def _replace_object(
    context: ErasureContext,
    file: LandingFile,
    new: BinaryIO,
    source: SourceFile | None,
    hold: Hold,
) -> None:
    """Replace an object by what is left of it, or delete it.

    Raises:
        _KeptError: It still has it, or its older versions may.
        FileNotFoundError: It was replaced or deleted since it was listed.
        PermissionError: The access keys may not write it.
        LandingError: The store does not answer.
    """
    landing = context.stores.landing.objects
    assert landing is not None  # noqa: S101 - of files there are paths
    has_versions = landing.has_versions(file)
    hold.check()
    if not size_of(new):
        if not landing.delete(file):
            raise _KeptError(_REPLACED)
    else:
        written = landing.replace(file, read_at(new, size_of(new), 0))
        if source is not None:
            identity = (written.device, written.inode)
            _add_entry(context, source, new, identity, landing.shown(file.path))
    if has_versions:
        raise _KeptError(_VERSIONS)
