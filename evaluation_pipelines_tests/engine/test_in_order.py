"""Requests in flight: order, their number, large ones, and an early end."""

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier, Event

import pytest

from evaluation_pipelines.engine.work import in_order

SOON_S = 20


@dataclass
class Requests:
    """Requests that were taken, and futures that are answered at once or by the test."""

    count: int
    is_answered: bool = True
    taken: list[int] = field(default_factory=list)
    futures: dict[int, Future[int]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.taken.append(number)
            yield number

    def begin(self, request: int) -> Future[int]:
        """Begin a request."""
        self.futures[request] = Future()
        if self.is_answered:
            self.futures[request].set_result(10 * request)
        return self.futures[request]


def never(_request: int) -> bool:
    return False


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("large", [None, 0, 3])
def test_every_request_is_yielded_once_and_in_order(
    count: int, limit: int, large: int | None
) -> None:
    requests = Requests(count)
    found = list(in_order(requests.begin, requests, limit, lambda each: each == large))
    assert found == [(number, 10 * number) for number in range(count)]
    assert requests.taken == list(range(count))


def test_as_many_are_begun_as_the_limit_says_and_one_more_for_each_that_was_taken() -> None:
    requests = Requests(9)
    found = in_order(requests.begin, requests, 3, never)
    assert next(found) == (0, 0)
    assert requests.taken == [0, 1, 2, 3]
    assert next(found) == (1, 10)
    assert requests.taken == [0, 1, 2, 3, 4]


def test_a_large_request_is_run_alone() -> None:
    requests = Requests(5)
    found = in_order(requests.begin, requests, 3, lambda request: request == 2)
    assert next(found) == (0, 0)
    assert sorted(requests.futures) == [0, 1]
    assert next(found) == (1, 10)
    assert sorted(requests.futures) == [0, 1, 2]
    assert next(found) == (2, 20)
    assert sorted(requests.futures) == [0, 1, 2, 3, 4]


def test_requests_are_run_in_parallel_while_the_caller_works() -> None:
    together = Barrier(3)

    def run(request: int) -> int:
        if request:
            together.wait(SOON_S)
        return request

    with ThreadPoolExecutor(2) as pool:
        found = in_order(lambda each: pool.submit(run, each), range(3), 3, never)
        assert next(found) == (0, 0)
        together.wait(SOON_S)  # both others are running
        assert list(found) == [(1, 1), (2, 2)]


def test_a_caller_that_stops_waits_for_running_requests_and_cancels_the_others() -> None:
    running, goes_on, ended = Event(), Event(), Event()

    def run(request: int) -> int:
        if request:
            running.set()
            goes_on.wait(SOON_S)
            ended.set()
        return request

    with ThreadPoolExecutor(1) as pool:
        requests = Requests(3)
        begun: list[Future[int]] = []

        def begin(request: int) -> Future[int]:
            begun.append(pool.submit(run, request))
            return begun[-1]

        found = in_order(begin, requests, 3, never)
        next(found)
        running.wait(SOON_S)
        goes_on.set()
        with pytest.raises(KeyboardInterrupt):
            found.throw(KeyboardInterrupt)
        assert ended.is_set()
        assert [each.done() for each in begun] == [True, True, True]


def test_an_error_of_the_requests_themselves_waits_for_what_runs() -> None:
    def broken() -> Iterator[int]:
        yield 0
        raise OSError("no more")

    requests = Requests(1)
    with pytest.raises(OSError, match="no more"):
        list(in_order(requests.begin, broken(), 2, never))
    assert requests.futures[0].done()


def test_after_a_breakdown_all_in_flight_are_begun_again() -> None:
    requests, broken = Requests(4, is_answered=False), list[int]()

    def begin(request: int) -> Future[int]:
        future = requests.begin(request)
        if broken:
            future.set_result(10 * request)
        elif request == 1:
            for each in requests.futures.values():
                each.set_exception(BrokenExecutor())
        return future

    found = list(in_order(begin, requests, 2, never, replace=broken.append))
    assert found == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert broken == [0]
    assert requests.taken == [0, 1, 2, 3]


def test_a_breakdown_that_cannot_be_mended_is_an_error() -> None:
    def refuse(request: int) -> None:
        raise ValueError(f"{request} again")

    def begin(request: int) -> Future[int]:
        future = Requests(1, is_answered=False).begin(request)
        future.set_exception(BrokenExecutor())
        return future

    with pytest.raises(ValueError, match="0 again"):
        next(in_order(begin, range(3), 1, never, replace=refuse))
