"""Results in the order of their requests, while a limited number of requests is in flight."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from itertools import islice
from typing import Generic

from evaluation_pipelines.engine.work import Request, Result
from evaluation_pipelines.storage.lock import note_progress

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
            self._begun = deque((each, self._begin(each)) for each, _ in self._begun)
            return self.take(replace, watch)
        self._begun.popleft()
        self._taken += 1
        return request, result

    def _note(self) -> None:
        """Tell whoever waits for a lock of the caller if results have arrived since."""
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
