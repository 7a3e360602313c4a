"""Begun ahead: in order, list by list, so many at once, and nothing stays open."""

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Barrier, Event

import pytest

from evaluation_pipelines.build.prefetch import BusyError, prefetch

SOON_S = 20


@dataclass
class Piece:
    """What was begun of an item."""

    item: int
    closed: bool = False

    def close(self) -> None:
        """Let it go."""
        self.closed = True


@dataclass
class Works:
    """Begins items, and knows which."""

    begun: dict[int, Piece] = field(default_factory=dict)
    given_up: list[Piece] = field(default_factory=list)
    broken: frozenset[int] = frozenset()
    busy: frozenset[int] = frozenset()
    waited_for: list[int] = field(default_factory=list)

    def try_begin(self, item: int) -> Piece:
        """Begin one, if nobody else has it."""
        if item in self.busy:
            raise BusyError
        if item in self.broken:
            raise ValueError(f"{item} is broken")
        if item in self.begun:
            self.given_up.append(self.begun[item])
        self.begun[item] = Piece(item)
        return self.begun[item]

    def begin(self, item: int) -> Piece:
        """Wait until nobody else has it; nothing is held ahead then."""
        self.waited_for.append(item)
        assert all(each.closed for number, each in self.begun.items() if number > item)
        self.begun[item] = Piece(item)
        return self.begun[item]

    def ahead(
        self, count: int, threads: int = 1, large: int | None = None, together: int = 1
    ) -> Generator[list[Piece], None, None]:
        """So many items, begun ahead, some in a list."""
        lists = [range(first, min(first + together, count)) for first in range(0, count, together)]
        return prefetch(lists, self.begin, self.try_begin, lambda item: item == large, threads)


def numbers(lists: Sequence[list[Piece]]) -> list[list[int]]:
    """Items of each list."""
    return [[piece.item for piece in several] for several in lists]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("large", [None, 0, 3])
@pytest.mark.parametrize("together", [1, 3])
def test_every_item_is_begun_once_and_comes_in_its_order(
    count: int, threads: int, large: int | None, together: int
) -> None:
    works = Works()
    lists = numbers(list(works.ahead(count, threads, large, together)))
    assert [item for several in lists for item in several] == list(range(count))
    assert [len(several) for several in lists[:-1]] == [together] * (len(lists) - 1)
    assert sorted(works.begun) == list(range(count))
    assert not works.given_up
    assert not works.waited_for


def test_so_many_are_begun_at_once_while_the_caller_works() -> None:
    together = Barrier(3)

    def begin(item: int) -> Piece:
        if item:
            together.wait(SOON_S)
        return Piece(item)

    pieces = prefetch([[0], [1], [2]], begin, begin, lambda _: False, 2)
    assert numbers([next(pieces)]) == [[0]]
    together.wait(SOON_S)  # the two others are both under way
    assert numbers(list(pieces)) == [[1], [2]]


def test_the_next_list_is_begun_while_the_caller_works_and_one_more_for_each_thread() -> None:
    together = Barrier(2)

    def begin(item: int) -> Piece:
        if item == 6:  # the last that may be begun: 3 to 5 are the next list
            together.wait(SOON_S)
        return Piece(item)

    works = Works()
    lists = prefetch(
        [range(3), range(3, 6), range(6, 9)],
        begin,
        lambda item: works.begun.setdefault(item, begin(item)),
        lambda _: False,
        1,
    )
    assert numbers([next(lists)]) == [[0, 1, 2]]
    together.wait(SOON_S)
    assert sorted(works.begun)[:6] == [0, 1, 2, 3, 4, 5]
    assert not works.begun.keys() & {7, 8}
    assert numbers(list(lists)) == [[3, 4, 5], [6, 7, 8]]


def test_nothing_is_begun_beside_a_large_one() -> None:
    works = Works()
    pieces = works.ahead(5, threads=3, large=2)
    assert numbers([next(pieces)]) == [[0]]
    assert 2 not in works.begun
    assert numbers([next(pieces)]) == [[1]]
    assert not works.begun.keys() & {3, 4}
    assert numbers(list(pieces)) == [[2], [3], [4]]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_what_somebody_else_has_is_waited_for_in_its_turn_and_nothing_is_held_meanwhile(
    threads: int,
) -> None:
    works = Works(busy=frozenset((0, 2, 3)))
    assert numbers(list(works.ahead(6, threads))) == [[0], [1], [2], [3], [4], [5]]
    assert works.waited_for == [0, 2, 3]
    assert all(piece.closed for piece in works.given_up)


def test_those_of_a_list_that_nobody_else_has_come_before_the_one_that_is_waited_for() -> None:
    works = Works(busy=frozenset((2, 5)))
    lists = works.ahead(7, threads=2, together=4)
    assert numbers([next(lists)]) == [[0, 1]]
    assert not works.waited_for
    assert numbers(list(lists)) == [[2, 3], [4], [5, 6]]
    assert works.waited_for == [2, 5]


def test_what_was_begun_in_vain_is_closed_and_what_the_caller_has_is_not() -> None:
    works = Works()
    pieces = works.ahead(9, threads=2)
    (first,) = next(pieces)
    pieces.close()
    assert not first.closed
    assert all(piece.closed for item, piece in works.begun.items() if item)
    assert len(works.begun) <= 3


@pytest.mark.parametrize("together", [1, 2])
def test_an_interrupt_while_waiting_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    works = Works()
    pieces = works.ahead(6, threads=2, together=together)
    next(pieces)

    def interrupted(_: Future[Piece]) -> Piece:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(pieces)
    assert all(piece.closed for item, piece in works.begun.items() if item >= together)


def test_an_error_comes_in_its_turn_and_the_others_are_closed() -> None:
    works = Works(broken=frozenset((1, 3)))
    pieces = works.ahead(5, threads=4)
    assert numbers([next(pieces)]) == [[0]]
    with pytest.raises(ValueError, match="1 is broken"):
        next(pieces)
    assert all(piece.closed for item, piece in works.begun.items() if item)


def test_an_error_within_a_list_closes_those_before_it() -> None:
    works = Works(broken=frozenset((2,)))
    with pytest.raises(ValueError, match="2 is broken"):
        next(works.ahead(5, threads=2, together=5))
    assert sorted(works.begun)[:2] == [0, 1]
    assert all(piece.closed for piece in works.begun.values())


def test_a_caller_that_fails_waits_for_what_is_under_way() -> None:
    started, goes_on, ended = Event(), Event(), Event()

    def begin(item: int) -> Piece:
        if item:
            started.set()
            goes_on.wait(SOON_S)
            ended.set()
        return Piece(item)

    pieces = prefetch([[0], [1]], begin, begin, lambda _: False, 1)
    next(pieces)
    started.wait(SOON_S)
    goes_on.set()
    with pytest.raises(KeyboardInterrupt):
        pieces.throw(KeyboardInterrupt)
    assert ended.is_set()
