"""Work in two halves: while the second of some pieces is done, the first of the next ones is."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Something that holds what others may wait for."""

    def close(self) -> None:
        """Let it go."""


Item = TypeVar("Item")
Begun = TypeVar("Begun", bound=Closable)


class BusyError(Exception):
    """An item cannot be begun without waiting for somebody else."""


def prefetch(
    lists: Iterable[Iterable[Item]],
    begin: Callable[[Item], Begun],
    try_begin: Callable[[Item], Begun],
    is_large: Callable[[Item], bool],
    threads: int,
) -> Generator[list[Begun], None, None]:
    """The first half of each item, in order, list by list; the next list is begun meanwhile.

    Nothing is begun at the same time as something large. A list comes in parts if somebody else
    has one of its items: those before it do not wait for that. What was begun in vain, because the
    caller gives up, is closed.

    Args:
        lists: What there is to do.
        begin: Makes the first half of an item in its turn. It may wait for others: nothing is held
            ahead then, since two who hold what the other waits for would wait for ever.
        try_begin: Does the same ahead of the turn, and raises BusyError instead of waiting.
        is_large: Whether an item is begun alone.
        threads: So many are begun at once.

    Raises:
        Exception: whatever else ``begin`` or ``try_begin`` raises, in the turn of the item.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        ahead = _Prefetch(pool, try_begin, is_large, threads, lists)
        try:
            while ahead.has_more():
                several = ahead.next_ones(begin)
                ahead.fill()
                yield several
        finally:
            ahead.give_up()


class _Prefetch(Generic[Item, Begun]):
    """Items that are not begun yet, and those that are under way."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        try_begin: Callable[[Item], Begun],
        is_large: Callable[[Item], bool],
        threads: int,
        lists: Iterable[Iterable[Item]],
    ) -> None:
        self._pool, self._try_begin = pool, try_begin
        self._is_large, self._threads = is_large, threads
        self._lists = deque(items for each in lists if (items := deque(each)))
        self._todo = deque(item for each in self._lists for item in each)
        self._under_way: deque[tuple[Item, Future[Begun]]] = deque()

    def has_more(self) -> bool:
        """Whether an item is left."""
        return bool(self._lists)

    def fill(self) -> None:
        """Begin the next list, and so many more that no thread is idle when it is taken."""
        most = self._threads + (len(self._lists[0]) if self._lists else 0)
        while self._todo and len(self._under_way) < most and self._has_room(self._todo[0]):
            item = self._todo.popleft()
            self._under_way.append((item, self._pool.submit(self._try_begin, item)))

    def next_ones(self, begin: Callable[[Item], Begun]) -> list[Begun]:
        """The next list, as soon as it is begun; by ``begin`` what somebody else has."""
        wanted, several = self._lists[0], list[Begun]()
        try:
            while wanted and (begun := self._next_one(begin, may_wait=not several)) is not None:
                several.append(begun)
                wanted.popleft()
        except BaseException:
            for each in several:
                each.close()
            raise
        if not wanted:
            self._lists.popleft()
        return several

    def _next_one(self, begin: Callable[[Item], Begun], *, may_wait: bool) -> Begun | None:
        self.fill()
        future = self._under_way[0][1]
        try:
            begun = future.result()
        except BusyError:
            if not may_wait:
                return None
            self.give_up()
            return begin(self._todo.popleft())
        self._under_way.popleft()
        return begun

    def give_up(self) -> None:
        """Close what is under way: it has yet to be begun."""
        while self._under_way:
            item, future = self._under_way.pop()
            if not future.cancel() and future.exception() is None:
                future.result().close()
            self._todo.appendleft(item)

    def _has_room(self, item: Item) -> bool:
        if not self._under_way:
            return True
        last, _ = self._under_way[-1]
        return not (self._is_large(item) or self._is_large(last))
