"""Engine of one machine: threads, and processes for work that holds Python's lock."""

import os
import signal
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from queue import LifoQueue
from threading import Thread
from types import TracebackType
from typing import Self

from evaluation_pipelines.engine.work import EngineError, Request, Result, Shared, Work, in_order

_MAX_WORKERS = 4
"""Workers without a setting: each takes memory."""

_AHEAD = 3
"""Requests in flight per thread: a caller that finishes some of them leaves no thread idle."""


class LocalEngine:
    """Runs work in threads, or in ``processes``; one process is this one.

    Args:
        processes: One per core by default, at most 4.
        threads: One more than cores by default, at most 4: a thread sometimes waits for the disk.
    """

    def __init__(self, processes: int | None = None, threads: int | None = None) -> None:
        self._count = processes or min(core_count(), _MAX_WORKERS)
        self._threads = threads or min(core_count() + 1, _MAX_WORKERS)
        self._processes: _Processes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes."""
        self._end_processes()

    def run(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Yield each request with its result; see ``Engine.run``."""
        if not work.holds_lock:
            return self._in_threads(work, requests, shared)
        if self._count == 1:
            return ((request, work.function(shared, request)) for request in requests)
        return self._in_processes(work, requests, shared)

    def _in_threads(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        with ThreadPoolExecutor(self._threads, "engine") as threads:
            yield from in_order(
                lambda request: threads.submit(work.function, shared, request),
                requests,
                _AHEAD * self._threads,
                work.is_large,
            )

    def _in_processes(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Run requests in other processes; one that was killed is replaced once for a request."""
        broken_at: list[Request] = []

        def begin(request: Request) -> Future[Result]:
            if self._processes is None:
                self._processes = _Processes(self._count)
            return self._processes.submit(work.function, shared, request)

        def replace(request: Request) -> None:
            if request in broken_at:
                raise EngineError(
                    f"A worker process was killed during {work.name}, and so was the one in its "
                    "place. Nothing of that step was stored. If memory was short, set "
                    "EVAL_INGEST_PROCESSES=1 or a smaller EVAL_BATCH_BYTES. Then run the step "
                    "again."
                )
            broken_at[:] = [request]
            self._end_processes()

        return in_order(begin, requests, 2 * self._count, work.is_large, replace=replace)

    def _end_processes(self) -> None:
        if self._processes is not None:
            self._processes.end()
            self._processes = None


class _Processes:
    """Processes, each started when no other is idle, with one request at a time.

    Each has an executor of its own: one of several processes starts a process while it may
    already clear up after another that ended, which fails in Python 3.11.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "process")
        self._idle = LifoQueue[ProcessPoolExecutor]()
        for _ in range(count):
            # No forks: the threads of Polars do not survive that.
            self._idle.put(ProcessPoolExecutor(1, get_context("spawn"), _begin_process))

    def submit(
        self, function: Callable[[Shared, Request], Result], shared: Shared, request: Request
    ) -> Future[Result]:
        """Run a request in the next idle process. If it is killed, the result is BrokenExecutor."""
        return self._threads.submit(self._run, function, shared, request)

    def _run(
        self, function: Callable[[Shared, Request], Result], shared: Shared, request: Request
    ) -> Result:
        process = self._idle.get()
        try:
            result = process.submit(function, shared, request)
        except OSError as error:  # it was killed as it was started
            raise BrokenExecutor(str(error)) from error
        else:
            return result.result()
        finally:
            self._idle.put(process)

    def end(self) -> None:
        """End all processes after the requests that they run; others are cancelled."""
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().shutdown()


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin_process() -> None:
    """Leave Ctrl-C to the program that started this process, and end when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # the pool would wait for requests for ever
