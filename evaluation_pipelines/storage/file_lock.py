"""Lock between processes of one machine; the operating system releases it when its holder dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from evaluation_pipelines.storage.store import refuse_link


class LockTimeoutError(Exception):
    """Another process held the lock for too long; the message names it and says what to do."""


@contextmanager
def file_lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock file at ``path``, which is created if needed and never deleted.

    It also excludes other threads of this process.

    Raises:
        LockTimeoutError: the lock was not free within ``timeout_s`` seconds.
        OSError: the lock file cannot be created, or is a symbolic link.
    """
    refuse_link(path.parent)
    refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=timeout_s, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        holder = path.read_text(encoding="utf-8") or "another one"
        raise LockTimeoutError(
            f"process {holder} has kept {path} locked for more than {timeout_s:g} s. "
            "Check whether it hangs, end it, and try again."
        ) from error
    try:
        with suppress(OSError):  # only for the message of who waits: a full disk has no place
            path.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        lock.release()
