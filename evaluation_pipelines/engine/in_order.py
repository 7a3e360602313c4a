"""Results in the order of their requests, while a limited number of requests is in flight."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Generic

from evaluation_pipelines.engine.work import Request, Result


def in_order(
    begin: Callable[[Request], Future[Result]],
    requests: Iterable[Request],
    limit: int,
    is_large: Callable[[Request], bool],
    here: Callable[[Request], Result] | None = None,
) -> Generator[tuple[Request, Result], None, None]:
    """Begin requests, and yield each with its result.

    Args:
        begin: Begins a request.
        requests: Taken one by one, before the first result and whenever one was taken.
        limit: Number of requests in flight.
        is_large: True for a request that is run while no other is.
        here: Runs a request in this thread, while the next result is not there yet.
    """
    flight = _Flight(begin, iter(requests), limit, is_large)
    try:
        while flight.fill():
            if here is not None:
                flight.help(here)
            first = flight.take()
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

    def help(self, here: Callable[[Request], Result]) -> None:
        """Run requests that no worker has started, until the first result is there."""
        while not self._begun[0][1].done():
            if not self._run_one(here):
                return
            self.fill()

    def _run_one(self, here: Callable[[Request], Result]) -> bool:
        for index, (request, future) in enumerate(self._begun):
            if future.cancel():
                self._begun[index] = request, _done(here, request)
                return True
        return False

    def take(self) -> tuple[Request, Result]:
        """Return the first request with its result, once it is there."""
        request, future = self._begun[0]
        result = future.result()
        self._begun.popleft()
        return request, result

    def cancel(self) -> None:
        """Cancel what has not been started, and wait for the others."""
        for _, future in self._begun:
            future.cancel()
        for _, future in self._begun:
            if not future.cancelled():
                future.exception()


def _done(here: Callable[[Request], Result], request: Request) -> Future[Result]:
    done: Future[Result] = Future()
    try:
        done.set_result(here(request))
    except Exception as error:  # noqa: BLE001 - raised in the turn of the request
        done.set_exception(error)
    return done
