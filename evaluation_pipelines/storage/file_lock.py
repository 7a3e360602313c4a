"""A lock that processes of one machine share, and that the system takes back when one is killed."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_AGAIN_S = 0.05


class LockTimeoutError(Exception):
    """Somebody else kept the lock for too long; the message says who, and what to do."""


@contextmanager
def file_lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is not there and stays there.

    Two threads of a process exclude each other, too.

    Raises:
        LockTimeoutError: it was not free within ``timeout_s`` seconds.
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _wait(descriptor, path, timeout_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)  # which unlocks


def _wait(descriptor: int, path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 20, 0).decode(errors="replace") or "another one"
                raise LockTimeoutError(
                    f"process {holder} has kept {path} locked for more than {timeout_s:g} s. "
                    "Look whether it hangs, end it, and try again."
                ) from error
        else:
            return
        time.sleep(_LOOK_AGAIN_S)
