"""Prefetching: order, parallel starts, busy items, and closing."""

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Barrier, Event

import pytest

from evaluation_pipelines.build.prefetch import BusyError, prefetch

SOON_S = 20


@dataclass
class Piece:
    """A started item."""

    item: int
    closed: bool = False

    def close(self) -> None:
        """Record that the item is closed."""
        self.closed = True


@dataclass
class Starter:
    """Starts items; records the started, the canceled and the waited-for ones."""

    started: dict[int, Piece] = field(default_factory=dict)
    canceled: list[Piece] = field(default_factory=list)
    broken: frozenset[int] = frozenset()
    busy: frozenset[int] = frozenset()
    waited_for: list[int] = field(default_factory=list)

    def try_start(self, item: int) -> Piece:
        """Start an item, unless it is busy."""
        if item in self.busy:
            raise BusyError
        if item in self.broken:
            raise ValueError(f"{item} is broken")
        if item in self.started:
            self.canceled.append(self.started[item])
        self.started[item] = Piece(item)
        return self.started[item]

    def start(self, item: int) -> Piece:
        """Start a busy item; no later item may be held during the call."""
        self.waited_for.append(item)
        assert all(each.closed for number, each in self.started.items() if number > item)
        self.started[item] = Piece(item)
        return self.started[item]

    def prefetch(
        self, count: int, threads: int = 1, large: int | None = None, together: int = 1
    ) -> Generator[list[Piece], None, None]:
        """Prefetch ``count`` items in batches of ``together``."""
        batches = [
            range(first, min(first + together, count)) for first in range(0, count, together)
        ]
        return prefetch(batches, self.start, self.try_start, lambda item: item == large, threads)


def numbers(batches: Sequence[list[Piece]]) -> list[list[int]]:
    """Return the items of each batch."""
    return [[piece.item for piece in batch] for batch in batches]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("large", [None, 0, 3])
@pytest.mark.parametrize("together", [1, 3])
def test_every_item_is_started_once_and_yielded_in_order(
    count: int, threads: int, large: int | None, together: int
) -> None:
    starter = Starter()
    batches = numbers(list(starter.prefetch(count, threads, large, together)))
    assert [item for batch in batches for item in batch] == list(range(count))
    assert [len(batch) for batch in batches[:-1]] == [together] * (len(batches) - 1)
    assert sorted(starter.started) == list(range(count))
    assert not starter.canceled
    assert not starter.waited_for


def test_items_are_started_in_parallel_while_the_caller_works() -> None:
    together = Barrier(3)

    def start(item: int) -> Piece:
        if item:
            together.wait(SOON_S)
        return Piece(item)

    pieces = prefetch([[0], [1], [2]], start, start, lambda _: False, 2)
    assert numbers([next(pieces)]) == [[0]]
    together.wait(SOON_S)  # both others are being started
    assert numbers(list(pieces)) == [[1], [2]]


def test_the_next_batch_is_started_while_the_caller_works_and_one_more_item_per_thread() -> None:
    together = Barrier(2)

    def start(item: int) -> Piece:
        if item == 6:  # the last that may be started: 3 to 5 are the next batch
            together.wait(SOON_S)
        return Piece(item)

    starter = Starter()
    batches = prefetch(
        [range(3), range(3, 6), range(6, 9)],
        start,
        lambda item: starter.started.setdefault(item, start(item)),
        lambda _: False,
        1,
    )
    assert numbers([next(batches)]) == [[0, 1, 2]]
    together.wait(SOON_S)
    assert sorted(starter.started)[:6] == [0, 1, 2, 3, 4, 5]
    assert not starter.started.keys() & {7, 8}
    assert numbers(list(batches)) == [[3, 4, 5], [6, 7, 8]]


def test_a_large_item_is_started_alone() -> None:
    starter = Starter()
    pieces = starter.prefetch(5, threads=3, large=2)
    assert numbers([next(pieces)]) == [[0]]
    assert 2 not in starter.started
    assert numbers([next(pieces)]) == [[1]]
    assert not starter.started.keys() & {3, 4}
    assert numbers(list(pieces)) == [[2], [3], [4]]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_busy_item_is_waited_for_in_its_turn_while_no_other_is_held(
    threads: int,
) -> None:
    starter = Starter(busy=frozenset((0, 2, 3)))
    assert numbers(list(starter.prefetch(6, threads))) == [[0], [1], [2], [3], [4], [5]]
    assert starter.waited_for == [0, 2, 3]
    assert all(piece.closed for piece in starter.canceled)


def test_items_of_a_batch_before_a_busy_one_are_yielded_first() -> None:
    starter = Starter(busy=frozenset((2, 5)))
    batches = starter.prefetch(7, threads=2, together=4)
    assert numbers([next(batches)]) == [[0, 1]]
    assert not starter.waited_for
    assert numbers(list(batches)) == [[2, 3], [4], [5, 6]]
    assert starter.waited_for == [2, 5]


def test_prefetched_items_are_closed_and_yielded_ones_are_not() -> None:
    starter = Starter()
    pieces = starter.prefetch(9, threads=2)
    (first,) = next(pieces)
    pieces.close()
    assert not first.closed
    assert all(piece.closed for item, piece in starter.started.items() if item)
    assert len(starter.started) <= 3


@pytest.mark.parametrize("together", [1, 2])
def test_an_interrupt_while_waiting_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    starter = Starter()
    pieces = starter.prefetch(6, threads=2, together=together)
    next(pieces)

    def interrupted(_: Future[Piece]) -> Piece:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(pieces)
    assert all(piece.closed for item, piece in starter.started.items() if item >= together)


def test_an_error_is_raised_in_its_turn_and_the_other_items_are_closed() -> None:
    starter = Starter(broken=frozenset((1, 3)))
    pieces = starter.prefetch(5, threads=4)
    assert numbers([next(pieces)]) == [[0]]
    with pytest.raises(ValueError, match="1 is broken"):
        next(pieces)
    assert all(piece.closed for item, piece in starter.started.items() if item)


def test_an_error_within_a_batch_closes_the_items_before_it() -> None:
    starter = Starter(broken=frozenset((2,)))
    with pytest.raises(ValueError, match="2 is broken"):
        next(starter.prefetch(5, threads=2, together=5))
    assert sorted(starter.started)[:2] == [0, 1]
    assert all(piece.closed for piece in starter.started.values())


def test_a_caller_that_fails_waits_for_running_items() -> None:
    running, goes_on, ended = Event(), Event(), Event()

    def start(item: int) -> Piece:
        if item:
            running.set()
            goes_on.wait(SOON_S)
            ended.set()
        return Piece(item)

    pieces = prefetch([[0], [1]], start, start, lambda _: False, 1)
    next(pieces)
    running.wait(SOON_S)
    goes_on.set()
    with pytest.raises(KeyboardInterrupt):
        pieces.throw(KeyboardInterrupt)
    assert ended.is_set()
