"""Work in two halves: while the second half of one piece is done, the first of the next ones is."""

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


def begun_ahead(
    items: Iterable[Item],
    begin: Callable[[Item], Begun],
    try_begin: Callable[[Item], Begun],
    is_large: Callable[[Item], bool],
    threads: int,
) -> Generator[Begun, None, None]:
    """The first half of each item, in order; those of the next ones are made in threads meanwhile.

    Nothing is begun at the same time as something large. What was begun in vain, because the
    caller gives up, is closed.

    Args:
        items: What there is to do.
        begin: Makes the first half of an item in its turn. It may wait for others: nothing is held
            ahead then, since two who hold what the other waits for would wait for ever.
        try_begin: Does the same ahead of the turn, and raises BusyError instead of waiting.
        is_large: Whether an item is begun alone.
        threads: So many are begun at once.

    Raises:
        Exception: whatever else ``begin`` or ``try_begin`` raises, in the turn of the item.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        ahead = _Ahead(pool, try_begin, is_large, threads, deque(items))
        try:
            while ahead.has_more():
                begun = ahead.next_one(begin)
                ahead.fill()
                yield begun
        finally:
            ahead.give_up()


class _Ahead(Generic[Item, Begun]):
    """Items that are not begun yet, and those that are under way."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        try_begin: Callable[[Item], Begun],
        is_large: Callable[[Item], bool],
        most: int,
        todo: deque[Item],
    ) -> None:
        self._pool, self._try_begin, self._todo = pool, try_begin, todo
        self._is_large, self._most = is_large, most
        self._under_way: deque[tuple[Item, Future[Begun]]] = deque()

    def has_more(self) -> bool:
        """Whether an item is left."""
        return bool(self._todo or self._under_way)

    def fill(self) -> None:
        """Begin as many as there is room for."""
        while self._todo and self._has_room(self._todo[0]):
            item = self._todo.popleft()
            self._under_way.append((item, self._pool.submit(self._try_begin, item)))

    def next_one(self, begin: Callable[[Item], Begun]) -> Begun:
        """The first item, as soon as it is begun; by ``begin`` if somebody else has it."""
        self.fill()
        future = self._under_way[0][1]
        try:
            begun = future.result()
        except BusyError:
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
        is_alone = self._is_large(item) or self._is_large(last)
        return len(self._under_way) < self._most and not is_alone
