"""SIGTERM during judging: it ends the work as SIGINT does.

Without this a process ends at once: leases stay, and so do temporary files with transcripts.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM raise ``KeyboardInterrupt``; use as ``with``, or as a decorator.

    A handler of the caller, such as that of Dagster, stays. Signals reach the main thread only.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
