"""The limit on requests and tokens a minute, on a clock that moves only while somebody waits."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.endpoint.rate_limit import RateLimit
from evaluation_pipelines_tests.judging.endpoint.judge_calls import Clock


def times(clock: Clock, requests: int | None, tokens: int | None, asked: list[int]) -> list[float]:
    """When requests of so many tokens are let through that all come at once."""
    limit = RateLimit(requests, tokens, lambda: clock.at_s, clock.sleep)

    async def all_of_them() -> list[float]:
        return [each.at_s for each in await asyncio.gather(*map(limit.enter, asked))]

    return asyncio.run(all_of_them())


def test_without_a_limit_nobody_waits() -> None:
    assert times(Clock(), None, None, [10**9] * 100) == [0.0] * 100


def test_a_minute_after_the_first_of_a_full_window_the_next_one_goes_through() -> None:
    assert times(Clock(), 2, None, [1] * 5) == [0, 0, 60, 60, 120]


def test_tokens_are_limited_like_requests() -> None:
    # 400 + 500 fit into 1,000, 200 more do not; a minute later 200 + 800 do.
    assert times(Clock(), None, 1000, [400, 500, 200, 800, 1]) == [0, 0, 60, 60, 120]


def test_a_request_larger_than_the_whole_limit_goes_through_alone() -> None:
    assert times(Clock(), None, 1000, [10, 5000, 10]) == [0, 60, 120]


def test_those_who_come_later_wait_behind_those_who_came_first() -> None:
    # The last one would fit at once, beside the 600.
    assert times(Clock(), None, 1000, [600, 600, 100]) == [0, 60, 60]


def run(work: Coroutine[Any, Any, float]) -> float:
    """When the work ended."""
    return asyncio.run(work)


def test_true_tokens_take_the_place_of_estimated_ones() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        limit.correct(await limit.enter(900), 300)
        return (await limit.enter(700)).at_s

    assert run(work()) == 0


def test_more_tokens_than_estimated_make_the_next_one_wait() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        limit.correct(await limit.enter(100), 900)
        return (await limit.enter(200)).at_s

    assert run(work()) == 60


def test_a_correction_that_comes_when_the_minute_is_over_changes_nothing() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        first = await limit.enter(900)
        clock.at_s += 60
        await limit.enter(500)
        limit.correct(first, 0)
        return (await limit.enter(600)).at_s

    assert run(work()) == 120  # the 500 of second 60 must be gone


def test_everybody_waits_while_the_endpoint_asks_for_it() -> None:
    clock = Clock()
    limit = RateLimit(None, None, lambda: clock.at_s, clock.sleep)
    limit.hold(20)
    limit.hold(5)  # a shorter one does not shorten it

    async def work() -> float:
        return (await limit.enter(1)).at_s

    assert run(work()) == 20


@given(
    requests=st.integers(1, 5),
    tokens=st.integers(1, 100),
    asked=st.lists(st.integers(0, 100), max_size=30),
)
def test_no_minute_ever_holds_more_than_the_limits(
    requests: int, tokens: int, asked: list[int]
) -> None:
    let_through = list(zip(times(Clock(), requests, tokens, asked), asked, strict=True))

    for begin, first in let_through:
        window = [each for at_s, each in let_through if begin <= at_s < begin + 60]
        assert len(window) <= requests
        assert sum(window) <= max(tokens, first)
