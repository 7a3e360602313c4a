"""Landing files that still have telemetry of what was forgotten: listed, and written anew.

A file is written anew next to itself and renamed. Before that, the ledger gets an entry of the new
file with the position that the old one was read to: whichever of the two is there after a kill,
nothing of it is read again.
"""

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, cast

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.rewriting import (
    KeptError,
    Piece,
    add_entry,
    pruned,
    source_file,
    write_pruned,
)
from evaluation_pipelines.storage.landing import (
    FileReplacedError,
    LandingFile,
    is_open_elsewhere,
    read_head,
)
from evaluation_pipelines.storage.lock import INGEST, Hold, LockTimeoutError, held
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile
from evaluation_pipelines.telemetry.otel_logs import name_files
from evaluation_pipelines.telemetry.received import RECEIVED
from evaluation_pipelines.telemetry.unread_files import known_identities

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_landing import ObjectLanding


_SAID = ("signals", "evaluations")
_RELEASE_SECONDS = 5.0
_STAGED = ".{}.erased"
_NOT_ASKED = "forget --rewrite-landing writes it anew"
_OPEN = (
    "another program has it open: stop that program, or run this again when it has begun another "
    "file"
)
_CHANGED = "another program has replaced it or added to it meanwhile: run this again"
_UNKNOWN = "the system cannot tell whether another program has it open"
_LINKED = "it has other names (hard links), which would keep what it has"


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


@dataclass(frozen=True, slots=True)
class _Found:
    """A file, whether it can be written anew without what it has, and what is said of it then."""

    file: LandingFile
    trace: LandingTrace
    has_trace: bool = False

    def kept(self, why: str) -> LandingTrace:
        """Return what is said of it if it is not written anew."""
        return replace(self.trace, kept_because=why) if self.has_trace else self.trace


def landing_traces(context: ErasureContext, *, rewrite: bool) -> list[LandingTrace]:
    """Return the landing files that have telemetry of what was forgotten.

    With ``rewrite`` those that no other program has open are written anew without it, each with the
    lock ``ingest``. If it is not free in time, those that are left are kept.

    Raises:
        LockLostError: Another process may ingest by now; files written anew before stay so.
        LedgerError: The ledger cannot be used.
    """
    name_files(context.stores)  # a file that a kill left without its name would be overlooked
    landing = context.stores.landing
    files, _ = landing.list_files(known_identities(context.stores))
    said = [each for kind in _SAID for each in landing.list_said(kind)[0]]
    looked_at = (_look(context, file) for file in [*files, *said])
    found = [each for each in looked_at if each is not None]
    if not rewrite or not any(each.has_trace for each in found):
        return [each.kept(_NOT_ASKED) for each in found]
    traces: list[LandingTrace] = []
    timeout_s = context.stores.settings.lock_timeout_seconds
    try:
        for each in found:
            # Anew for each file: who ingests need not wait until all are written.
            with held(context.stores.ledger, INGEST, timeout_s=timeout_s) as hold:
                traces.append(_rewritten(context, each, hold))
    except LockTimeoutError as error:
        left = found[len(traces) :]
        traces += [each.kept(f"it is being read: {error}") for each in left]
    return traces


def _look(context: ErasureContext, file: LandingFile) -> _Found | None:
    name = context.stores.landing.shown(file.path)
    try:
        with context.stores.landing.open(file) as handle:
            found = [each for each in pruned(context, file, handle) if _matters(each)]
    except OSError as error:
        unread = _not_read(name, error)
        return None if unread is None else _Found(file, unread)
    if not found:
        return None
    flaw = next((each.why_kept for each in found if each.why_kept is not None), None)
    trace = LandingTrace(name, tuple(each.offset for each in found), flaw)
    return _Found(file, trace, any(each.has_trace for each in found))


def _rewritten(context: ErasureContext, found: _Found, hold: Hold) -> LandingTrace:
    if not found.has_trace:
        return found.trace
    try:
        _rewrite(context, found.file, hold)
    except KeptError as error:
        return found.kept(str(error))
    except OSError as error:
        return found.kept(f"it cannot be written: {error.strerror or error}")
    context.done(f"landing {found.file.path}")
    return found.trace


def _not_read(name: str, error: OSError) -> LandingTrace | None:
    if isinstance(error, FileReplacedError):
        return LandingTrace(name, (), f"{error}: run this again")
    if isinstance(error, FileNotFoundError):
        return None  # deleted, or rotated away, meanwhile
    return LandingTrace(name, (), f"it cannot be read: {error.strerror or error}")


def _matters(piece: Piece) -> bool:
    return piece.has_trace or piece.why_kept is not None


def _rewrite(context: ErasureContext, file: LandingFile, hold: Hold) -> None:
    landing = context.stores.landing
    if landing.objects is not None:
        rewrite_object(context, landing.objects, file, hold)
    elif landing.folder is not None:
        _rewrite_file(context, landing.folder, file, hold)


def _rewrite_file(context: ErasureContext, root: Path, file: LandingFile, hold: Hold) -> None:
    """Write a file anew while no ingest reads it and no other program has it open."""
    path = root / file.path
    _ask_the_service(path, file)
    _refuse_shared(path)
    staged = path.with_name(_STAGED.format(path.name))
    staged.unlink(missing_ok=True)  # of a run that was killed
    with context.stores.landing.open(file) as handle:
        landed = _identity(os.fstat(handle.fileno()))
        source = source_file(context, file, handle)
        try:
            position = _write(context, file, handle, staged, source)
            size_bytes = staged.stat().st_size
            if size_bytes and source is not None:
                _add_entry(context, source, staged, position, handle)
                context.done(f"position in {file.path}")
            handle.close()  # the only handle that is left would be this one
            _refuse_shared(path)
            if _identity(path.stat()) != landed:
                raise KeptError(_CHANGED)
            hold.check()
            if size_bytes:
                staged.replace(path)
            else:
                path.unlink()
            _sync(path.parent)
        finally:
            with suppress(FileNotFoundError):
                staged.unlink()
    _remove_empty_folders(path.parent, root)


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
        raise KeptError(_LINKED)
    is_open = is_open_elsewhere(path)
    if is_open is not False:
        raise KeptError(_OPEN if is_open else _UNKNOWN)


def _write(
    context: ErasureContext,
    file: LandingFile,
    handle: BinaryIO,
    staged: Path,
    source: SourceFile | None,
) -> int:
    """Write what is left of a file; return the position in it up to which it was read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(staged, flags, 0o600), "wb") as new:
        position = write_pruned(context, file, handle, new, source)
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
    status = staged.stat()
    with staged.open("rb") as new:
        head = read_head(new)
    add_entry(
        context,
        source,
        (status.st_dev, status.st_ino),
        head,
        size_bytes=status.st_size,
        position=position,
        was_finished=source.finished_size_bytes == os.fstat(handle.fileno()).st_size,
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


_REPLACED = "it was replaced meanwhile: run this again"
_VERSIONS = "it was written anew, but the bucket may keep its older versions: delete these there"


def rewrite_object(
    context: ErasureContext, landing: "ObjectLanding", file: LandingFile, hold: Hold
) -> None:
    """Replace an object by what is left of it, or delete it, with the lock ``ingest``.

    Raises:
        KeptError: It still has it, or its older versions may.
        FileNotFoundError: It was replaced or deleted since it was listed.
        PermissionError: The access keys may not write it.
        LandingError: The store does not answer.
    """
    has_versions = landing.has_versions(file)
    with landing.open(file) as handle:
        source = source_file(context, file, handle)
        with TemporaryFile() as opened:
            new = cast(BinaryIO, opened)
            position = write_pruned(context, file, handle, new, source)
            head = read_head(new)
            new.seek(0)
            content = new.read()
        hold.check()
        if not content:
            if not landing.delete(file):
                raise KeptError(_REPLACED)
        else:
            written = landing.replace(file, content)
            if source is not None:
                add_entry(
                    context,
                    source,
                    (written.device, written.inode),
                    head,
                    size_bytes=written.size_bytes,
                    position=position,
                    was_finished=source.finished_size_bytes == file.size_bytes,
                )
                context.done(f"position in {landing.shown(file.path)}")
    if has_versions:
        raise KeptError(_VERSIONS)
