"""Ends of judging from outside: SIGTERM as SIGINT, and a thread that stops others.

Without the former a process ends at once: leases stay, and so do temporary files with transcripts.
"""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_WAKE_S = 0.5


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
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(*_: object) -> None:
    # A shell starts background commands of a script with SIGINT ignored.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


async def _wake_often() -> None:
    """End the loop's waits for events, so that Python runs the handlers of signals.

    A signal that arrives just before such a wait does not end it, and the next event may be minutes
    away: that of a reply.
    """
    while True:  # noqa: ASYNC110 - there is nothing to wait for
        await asyncio.sleep(_WAKE_S)


class Interruption:
    """Ends runs of other threads, as SIGINT ends one of the main thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._running: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = set()

    def set(self) -> None:
        """Cancel all guarded coroutines, and those that begin later."""
        with self._lock:
            self._is_set = True
            for loop, task in self._running:
                loop.call_soon_threadsafe(task.cancel)

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await ``work``; ``set`` cancels it."""
        task = asyncio.ensure_future(work)
        running = asyncio.get_running_loop(), task
        with self._lock:
            self._running.add(running)
            if self._is_set:
                task.cancel()
        waking = asyncio.ensure_future(_wake_often())
        try:
            await task
        finally:
            waking.cancel()
            with self._lock:
                self._running.discard(running)
