"""Work for tests of engines, by the name of which other processes import it."""

import os
import signal
from pathlib import Path
from time import monotonic, sleep

from evaluation_pipelines.engine import Work


def double(shared: int, request: int) -> int:
    """Return a number times another."""
    return shared * request


def refuse(shared: str, request: int) -> int:
    """Fail for one number."""
    if request == 3:
        raise ValueError(f"{request} {shared}")
    return request


def die_here(parent: tuple[int, Path], request: int) -> int:
    """Kill the process of a worker, the first times that it is asked for a number."""
    test, notes = parent
    if os.getpid() != test and request == 1:
        died = sorted(notes.iterdir())
        (notes / f"{len(died)}").touch()
        if len(died) < int(notes.name):
            os.kill(os.getpid(), signal.SIGKILL)
    return request


def wait_for_others(notes: Path, request: int) -> int:
    """Leave a note; the first request waits, at most a minute, for those of two others."""
    (notes / f"{request}").touch()
    end = monotonic() + 60
    while request == 1 and len(list(notes.iterdir())) < 3 and monotonic() < end:
        sleep(0.01)
    return len(list(notes.iterdir()))


DOUBLE = Work(double, holds_lock=True)
DOUBLE_IN_THREADS = Work(double)
REFUSE = Work(refuse, holds_lock=True)
DIE = Work(die_here, holds_lock=True)
WAIT = Work(wait_for_others, holds_lock=True)
