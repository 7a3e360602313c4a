"""Locks for work that only one process may do at a time, on any machine.

With a ledger in SQLite a lock is a file in a folder next to it, with PostgreSQL it is an advisory
lock on a dedicated connection. Both are released when the holder dies, so nothing is renewed and no
clocks are compared. The table ``holders`` says who holds what, and a commit of the block is refused
once another holder has written there.
"""

import fcntl
import hashlib
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from time import monotonic

import sqlalchemy as sa
from filelock import FileLock, Timeout

from evaluation_pipelines.progress import followed
from evaluation_pipelines.storage.ledger.engine import (
    insert_into,
    lone_connection,
    reading,
    writing,
)
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.tables.telemetry import HOLDERS
from evaluation_pipelines.storage.store import refuse_link

INGEST = "ingest"
PUBLISH = "publish"
ERASE = "erase"
REPUTATION = "reputation"
KEEP_CURRENT = "keep current"
JUDGE = "judge"
BUILD = "build "
"""Lock names; the lock for a date is ``BUILD`` plus the date."""

NOTED_EVERY_S = 15.0
"""Seconds between two progress updates, which doctor and status show."""

_HOLDER = HOLDERS.c
_TRY_AGAIN_S = 0.2
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "fuse.sshfs",
    )
)

_ADVISORY = sa.text(
    "SELECT (CAST(classid AS bigint) << 32) | CAST(objid AS bigint), pid FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Advisory locks with 64-bit keys, and the server process holding each."""

_PLACE = f"SELECT CAST(CAST('{HOLDERS.name}' AS regclass) AS bigint)"


class LockTimeoutError(LedgerError):
    """Another process held a lock for too long; the message names it and says what to do."""

    def __init__(self, message: str, name: str, holder: str) -> None:
        super().__init__(message)
        self.name, self.holder = name, holder


class LockLostError(LedgerError):
    """The lock is no longer held, for example because the server connection was cut."""


class NoLockError(LedgerError):
    """Locks do not work where the ledger is stored."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, since when, and when it last committed something."""

    name: str
    holder_id: str
    host: str
    process_id: int
    since: datetime
    last_progress_at: datetime


@dataclass(slots=True, eq=False)
class Hold:
    """Locks that this process holds."""

    ledger: Ledger
    names: tuple[str, ...]
    holder_id: str
    _is_kept: Callable[[sa.Connection], bool] = field(repr=False)
    _noted_s: float = field(default_factory=monotonic)

    def check(self, connection: sa.Connection | None = None) -> None:
        """Check that the locks are still held, and note progress.

        Call it inside the transaction about to be committed; the next holder waits for it to end.
        Call it without a connection right before a swap, a deletion or another change that is not
        a commit.

        Raises:
            LockLostError: The locks are no longer held. Nothing was written.
        """
        if connection is None:
            with writing(self.ledger.engine) as own:
                return self.check(own)
        if not self._note(connection) or not self._is_kept(connection):
            raise LockLostError(
                f"The lock {', '.join(self.names)} is lost: nothing was written, and another "
                "process may be running. The next run finishes the work."
            )
        return None

    def note_progress(self) -> None:
        """Note progress, outside a transaction, if the last note is old enough."""
        if monotonic() - self._noted_s >= NOTED_EVERY_S:
            with suppress(LedgerError), writing(self.ledger.engine) as connection:
                self._note(connection)

    def _note(self, connection: sa.Connection) -> bool:
        """Note progress; return False if another process holds one of the locks."""
        now = shared_time(connection, datetime.now(UTC))
        is_own = _HOLDER.name.in_(self.names), _HOLDER.holder_id == self.holder_id
        update = sa.update(HOLDERS).where(*is_own).values(last_progress_at=now)
        self._noted_s = monotonic()
        return connection.execute(update).rowcount == len(self.names)


@contextmanager
def held(ledger: Ledger, *names: str, timeout_s: float = 0.0) -> Iterator[Hold]:
    """Hold locks until the block ends or this process dies; also excludes other threads.

    Args:
        ledger: The ledger shared by all processes that use the locks.
        names: What is held, for example ``ingest`` or ``build 2026-06-01``.
        timeout_s: Seconds to wait for other holders.

    Raises:
        LockTimeoutError: A lock was not free within that time.
        NoLockError: Locks do not work with a connection pooler or a network file system.
        LedgerError: The ledger cannot be used.
        OSError: A lock file cannot be created.
    """
    hold_id, in_order = uuid.uuid4().hex, tuple(sorted(set(names)))
    is_local = ledger.engine.dialect.name == "sqlite"
    deadline = monotonic() + timeout_s

    def refused(name: str) -> LockTimeoutError:
        holder = _named(ledger, name)
        return LockTimeoutError(
            f"Could not get the lock {name} within {timeout_s:g} s: {holder} holds it. Check "
            "whether it hangs, end it, and try again.",
            name,
            holder,
        )

    with ExitStack() as stack:
        take = _files if is_local else _advisory_locks
        is_kept = stack.enter_context(take(ledger, in_order, hold_id, deadline, refused))
        _note(ledger, in_order, hold_id)
        stack.callback(_erase_note, ledger, hold_id)
        hold = Hold(ledger, in_order, hold_id, is_kept)
        stack.enter_context(followed(hold.note_progress))
        yield hold


def holders(ledger: Ledger) -> list[Holder]:
    """Return who holds locks now, by the name of the lock."""
    with reading(ledger.engine) as connection:
        rows = connection.execute(sa.select(HOLDERS).order_by(_HOLDER.name)).mappings()
        known = [Holder(**row) for row in rows]
        if connection.dialect.name == "postgresql":
            place = connection.scalar(sa.text(_PLACE))
            keys = {key for key, _ in connection.execute(_ADVISORY)}
            return [holder for holder in known if _key(holder.name, place) in keys]
    return [holder for holder in known if _is_locked(_path(ledger, holder.name))]


def _named(ledger: Ledger, name: str) -> str:
    """Return who holds a lock, if it is recorded."""
    with reading(ledger.engine) as connection:
        query = sa.select(_HOLDER.process_id, _HOLDER.host).where(_HOLDER.name == name)
        row = connection.execute(query).one_or_none()
    return "another process" if row is None else f"process {row.process_id} on {row.host}"


def _note(ledger: Ledger, names: Sequence[str], hold_id: str) -> None:
    """Write down who holds locks, after the last commit of the previous holder."""
    with writing(ledger.engine) as connection:
        now = shared_time(connection, datetime.now(UTC))
        insert = insert_into(connection, HOLDERS)
        holder = {"holder_id": hold_id, "host": socket.gethostname(), "process_id": os.getpid()}
        values = holder | {"since": now, "last_progress_at": now}
        changed = {name: insert.excluded[name] for name in values}
        upsert = insert.on_conflict_do_update(index_elements=[_HOLDER.name], set_=changed)
        connection.execute(upsert, [{"name": name, **values} for name in names])


def _erase_note(ledger: Ledger, hold_id: str) -> None:
    """Delete the record; if a killed process left one, it is ignored, because its lock is free."""
    with suppress(LedgerError), writing(ledger.engine) as connection:
        connection.execute(sa.delete(HOLDERS).where(_HOLDER.holder_id == hold_id))


@contextmanager
def _files(
    ledger: Ledger,
    names: Sequence[str],
    _hold_id: str,
    deadline: float,
    refused: Callable[[str], LockTimeoutError],
) -> Iterator[Callable[[sa.Connection], bool]]:
    """Lock a file for each name; yield whether these files are still there."""
    paths = [_path(ledger, name) for name in names]
    folder = paths[0].parent
    _refuse_network(folder.parent)
    refuse_link(folder)
    folder.mkdir(exist_ok=True)
    _give_to_owner(folder)
    with ExitStack() as stack:
        for name, path in zip(names, paths, strict=True):
            refuse_link(path)
            # Listing holders briefly takes a shared lock, so retry once.
            wait_s = max(_TRY_AGAIN_S, deadline - monotonic())
            lock = FileLock(path, timeout=wait_s, thread_local=False)
            try:
                stack.enter_context(lock)
            except Timeout:
                raise refused(name) from None
            _give_to_owner(path)
        locked = [path.stat().st_ino for path in paths]

        def is_kept(_connection: sa.Connection) -> bool:
            try:
                return [path.stat().st_ino for path in paths] == locked
            except FileNotFoundError:  # a process that asks for the lock now gets another file
                return False

        yield is_kept


def _path(ledger: Ledger, name: str) -> Path:
    return Path(f"{ledger.engine.url.database}.locks", f"{name.replace(' ', '-')}.lock")


def _give_to_owner(path: Path) -> None:
    """Give files created by root to the folder's owner, whose processes also lock them."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _is_locked(path: Path) -> bool:
    """Return whether a file is locked; concurrent callers get the same answer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:  # owned by another user: the holders table names the holder
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _refuse_network(folder: Path) -> None:
    """Refuse a network file system, where machines may not see each other's locks."""
    kind = file_system(folder, _MOUNTS)
    if kind in _NETWORK:
        raise NoLockError(
            f"The ledger is in {folder}, on a network file system ({kind}), where SQLite and locks "
            "are not safe. Set EVAL_LEDGER_URL to a file on a local disk. Several machines need a "
            "ledger in PostgreSQL."
        )


def file_system(folder: Path, mounts: Path) -> str | None:
    """Return the file system type of a folder, from a Linux list of mounts."""
    if not mounts.exists():
        return None
    resolved, depth, found = folder.resolve(), 0, None
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        place = Path(before.split(" ")[4].replace("\\040", " "))
        if resolved.is_relative_to(place) and len(place.parts) >= depth:
            depth, found = len(place.parts), after.split(" ")[0]
    return found


@contextmanager
def _advisory_locks(
    ledger: Ledger,
    names: Sequence[str],
    hold_id: str,
    deadline: float,
    refused: Callable[[str], LockTimeoutError],
) -> Iterator[Callable[[sa.Connection], bool]]:
    """Take advisory locks of a connection; yield whether it still has them.

    One of them is unique to this hold, so a later server process with the same PID is not mistaken
    for ours.
    """
    with lone_connection(ledger.engine) as (run, backend):
        (place,) = run(_PLACE)
        keys = [_key(name, place) for name in (hold_id, *names)]
        for name, key in zip((hold_id, *names), keys, strict=True):
            while True:
                is_locked, asked = run("SELECT pg_try_advisory_lock(%s), pg_backend_pid()", key)
                if asked != backend:
                    raise NoLockError(
                        "A connection pooler (such as pgbouncer) sits between this machine and the "
                        "ledger's PostgreSQL. Locks do not work through it. "
                        "Name the server itself in EVAL_LEDGER_URL."
                    )
                if is_locked:
                    break
                if (left_s := deadline - monotonic()) <= 0:
                    raise refused(name)
                Event().wait(min(_TRY_AGAIN_S, left_s))

        def is_kept(connection: sa.Connection) -> bool:
            found = {key for key, pid in connection.execute(_ADVISORY) if pid == backend}
            return found.issuperset(keys)

        try:
            yield is_kept
        finally:
            with suppress(LedgerError):  # the connection may be cut; its end would take a moment
                run("SELECT pg_advisory_unlock_all()")


def _key(name: str, place: int) -> int:
    """Return the number of a lock in PostgreSQL, the same in every process.

    ``place`` is the number of the ledger in its database, which may have several, in schemas.
    """
    digest = hashlib.blake2b(f"{place} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
