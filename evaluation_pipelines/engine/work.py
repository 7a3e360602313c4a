"""Work, a function that runs in a thread, in another process or on another machine; and engines.

Results are in the order of their requests, while a limited number of requests is in flight.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.progress import note_progress
from evaluation_pipelines.storage.sql_files import SQL_ROOTS

Shared = TypeVar("Shared")
Request = TypeVar("Request")
Result = TypeVar("Result")


class EngineError(UserError):
    """Work could not be run; the message says which and what to do."""


def _never(_request: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Work(Generic[Shared, Request, Result]):
    """A step that only reads, or writes what counts once its caller commits it.

    It may be run twice, and be killed at any time.

    Args:
        function: A function of a module: other processes import it by its name. It takes what all
            requests share, and one request.
        holds_lock: True if it is Python code, so that threads of one process would wait for
            each other.
        is_large: True for a request that may take most of the memory of a machine.
    """

    function: Callable[[Shared, Request], Result]
    holds_lock: bool = False
    is_large: Callable[[Request], bool] = _never

    @property
    def name(self) -> str:
        """Name of the function for people."""
        return self.function.__name__


class Engine(Protocol):
    """Workers, started when they are first needed and ended with the ``with`` block."""

    def __enter__(self) -> Self:
        """Return the engine."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the workers."""

    def run(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Yield each request with its result, in the order of the requests.

        Few requests more than there are workers are taken before the first result is; they are
        worked on while the caller uses the results. If the caller stops early, what runs ends
        before the generator is closed.

        Args:
            work: What to do.
            requests: Taken one by one, in the thread of the caller.
            shared: What each request needs. Threads share it; other processes get a copy.

        Raises:
            EngineError: A worker ended more than once during a request.
            Exception: Any error of the work, in the turn of its request.
        """


_WATCH_S = 2.0


def in_order(
    begin: Callable[[Request], Future[Result]],
    requests: Iterable[Request],
    limit: int,
    is_large: Callable[[Request], bool],
    *,
    replace: Callable[[Request], None] | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Generator[tuple[Request, Result], None, None]:
    """Begin requests, and yield each with its result.

    Args:
        begin: Begins a request.
        requests: Taken one by one, before the first result and whenever one was taken.
        limit: Number of requests in flight.
        is_large: True for a request that is run while no other is.
        replace: Called with the first request in flight after the workers broke down: all in flight
            are begun again, unless it raises an error.
        watch: Called every few seconds while a result is waited for; it may raise an error.
    """
    flight = _Flight(begin, iter(requests), limit, is_large)
    try:
        while flight.fill():
            first = flight.take(replace, watch)
            flight.fill()
            yield first
    finally:
        flight.cancel()


class _Flight(Generic[Request, Result]):
    """Requests that were begun, in their order."""

    def __init__(
        self,
        begin: Callable[[Request], Future[Result]],
        requests: Iterator[Request],
        limit: int,
        is_large: Callable[[Request], bool],
    ) -> None:
        self._begin, self._requests = begin, requests
        self._limit, self._is_large = limit, is_large
        self._begun: deque[tuple[Request, Future[Result]]] = deque()
        self._waiting: list[Request] = []
        self._taken = self._arrived = 0

    def fill(self) -> bool:
        """Begin requests up to the limit; return False if none is left."""
        while len(self._begun) < self._limit:
            if not self._waiting:
                self._waiting += islice(self._requests, 1)
            if not self._waiting or not self._has_room(self._waiting[0]):
                break
            request = self._waiting.pop()
            self._begun.append((request, self._begin(request)))
        return bool(self._begun)

    def _has_room(self, request: Request) -> bool:
        if not self._begun:
            return True
        last, _ = self._begun[-1]
        return not (self._is_large(request) or self._is_large(last))

    def take(
        self, replace: Callable[[Request], None] | None, watch: Callable[[], None]
    ) -> tuple[Request, Result]:
        """Return the first request with its result, once it is there."""
        request, future = self._begun[0]
        while not wait([future], _WATCH_S).done:
            self._note()
            try:
                watch()
            except BaseException:
                self._begun.clear()  # their results may never come
                raise
        self._note()
        try:
            result = future.result()
        except BrokenExecutor:
            if replace is None:
                raise
            replace(request)
            self._begun = deque((task, self._begin(task)) for task, _ in self._begun)
            return self.take(replace, watch)
        self._begun.popleft()
        self._taken += 1
        return request, result

    def _note(self) -> None:
        """Tell a process that waits for a lock of the caller if results have arrived."""
        arrived = self._taken + sum(future.done() for _, future in self._begun)
        if arrived > self._arrived:
            self._arrived = arrived
            note_progress()

    def cancel(self) -> None:
        """Cancel what has not been started, and wait for the others."""
        for _, future in self._begun:
            future.cancel()
        for _, future in self._begun:
            if not future.cancelled():
                future.exception()


_PROGRAM = Path(__file__).resolve().parents[1]


@cache
def program_version() -> str:
    """Return a hash of the program: workers of another one would build other rows."""
    content = hashlib.blake2b(digest_size=6)
    for name, path in _files():
        content.update(f"{name}\0".encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield Python and SQL files, under names that a wheel and a checkout share."""
    root = next((sql_root for sql_root in SQL_ROOTS if sql_root.is_dir()), SQL_ROOTS[0])
    for folder, pattern in ((_PROGRAM, "*.py"), (root, "*.sql")):
        for path in sorted(folder.rglob(pattern)):
            yield path.relative_to(folder).as_posix(), path
