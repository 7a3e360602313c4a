"""Prefetching of work in two halves: later items are started while earlier ones are finished."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A started item, which holds resources that others may wait for."""

    def close(self) -> None:
        """Release the resources."""


Item = TypeVar("Item")
Started = TypeVar("Started", bound=Closable)


class BusyError(Exception):
    """An item cannot be started without waiting, since another process or thread holds it."""


def prefetch(
    batches: Iterable[Iterable[Item]],
    start: Callable[[Item], Started],
    try_start: Callable[[Item], Started],
    is_large: Callable[[Item], bool],
    threads: int,
) -> Generator[list[Started], None, None]:
    """Start the items of each batch in threads, and yield batch after batch in order.

    The next batch is started while the caller finishes the current one. A large item is started
    while no other item is. A batch is yielded in parts if one of its items is busy, so that
    the items before it do not wait. If the caller stops early, prefetched items are closed.

    Args:
        batches: Items in the order in which they are yielded.
        start: Starts an item in its turn, and may wait for others. No prefetched item is held
            during the call, since two callers that each hold what the other waits for would
            never finish.
        try_start: Starts an item ahead of its turn; raises BusyError instead of waiting.
        is_large: True for an item that is started alone.
        threads: Number of items that are started in parallel.

    Yields:
        Started items of one batch; the caller closes them.

    Raises:
        Exception: Any other error of ``start`` or ``try_start``, in the turn of the item.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="prefetch") as pool:
        queue = _Prefetch(pool, try_start, is_large, threads, batches)
        try:
            while queue.has_more():
                started = queue.next_batch(start)
                queue.fill()
                yield started
        finally:
            queue.cancel()


class _Prefetch(Generic[Item, Started]):
    """Items that wait to be started, and items that are being started."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        try_start: Callable[[Item], Started],
        is_large: Callable[[Item], bool],
        threads: int,
        batches: Iterable[Iterable[Item]],
    ) -> None:
        self._pool, self._try_start = pool, try_start
        self._is_large, self._threads = is_large, threads
        self._batches = deque(items for each in batches if (items := deque(each)))
        self._waiting = deque(item for each in self._batches for item in each)
        self._running: deque[tuple[Item, Future[Started]]] = deque()

    def has_more(self) -> bool:
        """True if an item is left."""
        return bool(self._batches)

    def fill(self) -> None:
        """Start the next batch, and one more item for each thread to keep the threads busy."""
        limit = self._threads + (len(self._batches[0]) if self._batches else 0)
        while self._waiting and len(self._running) < limit and self._has_room(self._waiting[0]):
            item = self._waiting.popleft()
            self._running.append((item, self._pool.submit(self._try_start, item)))

    def next_batch(self, start: Callable[[Item], Started]) -> list[Started]:
        """Return the next batch once it is started, or the items of it before a busy one."""
        batch, started = self._batches[0], list[Started]()
        try:
            while batch and (each := self._next_item(start, may_wait=not started)) is not None:
                started.append(each)
                batch.popleft()
        except BaseException:
            for each in started:
                each.close()
            raise
        if not batch:
            self._batches.popleft()
        return started

    def _next_item(self, start: Callable[[Item], Started], *, may_wait: bool) -> Started | None:
        self.fill()
        future = self._running[0][1]
        try:
            started = future.result()
        except BusyError:
            if not may_wait:
                return None
            self.cancel()
            return start(self._waiting.popleft())
        self._running.popleft()
        return started

    def cancel(self) -> None:
        """Close the running items and put them back among the waiting ones."""
        while self._running:
            item, future = self._running.pop()
            if not future.cancel() and future.exception() is None:
                future.result().close()
            self._waiting.appendleft(item)

    def _has_room(self, item: Item) -> bool:
        if not self._running:
            return True
        last, _ = self._running[-1]
        return not (self._is_large(item) or self._is_large(last))
