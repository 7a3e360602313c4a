"""Engine of one machine: threads, and processes for work that holds Python's lock."""

import os
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from evaluation_pipelines.engine.in_order import in_order
from evaluation_pipelines.engine.processes import Processes
from evaluation_pipelines.engine.work import Request, Result, Shared, Work

_MAX_WORKERS = 4
"""Workers without a setting: each takes memory."""

_AHEAD = 3
"""Requests in flight per thread: a caller that finishes some of them leaves no thread idle."""


class LocalEngine:
    """Runs work in threads, or in this process and ``processes - 1`` more.

    Args:
        processes: One per core by default, at most 4.
        threads: One more than cores by default, at most 4: a thread sometimes waits for the disk.
    """

    def __init__(self, processes: int | None = None, threads: int | None = None) -> None:
        self._more_processes = (processes or min(core_count(), _MAX_WORKERS)) - 1
        self._threads = threads or min(core_count() + 1, _MAX_WORKERS)
        self._processes: Processes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes."""
        if self._processes is not None:
            self._processes.close()

    def run(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Yield each request with its result; see ``Engine.run``."""
        if not work.holds_lock:
            return self._in_threads(work, requests, shared)
        if self._more_processes == 0:
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
        """Run requests in other processes, and in this one while it waits for them."""
        processes = self._processes = self._processes or Processes(self._more_processes)
        return in_order(
            lambda request: processes.begin(work, request, shared),
            requests,
            2 * self._more_processes + 1,
            work.is_large,
            lambda request: work.function(shared, request),
        )


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
