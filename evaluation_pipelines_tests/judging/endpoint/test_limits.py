"""The circuit breaker, and the limits on requests and tokens per minute, on a simulated clock."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.endpoint.limits import CircuitBreaker, CircuitOpenError, RateLimit
from evaluation_pipelines_tests.judging.endpoint.judge_calls import Clock


def breaker(time: Clock) -> CircuitBreaker:
    """Return a breaker that opens at the third failure, for 30 seconds."""
    return CircuitBreaker(failures=3, pause_s=30, monotonic=lambda: time.at_s)


def opened(time: Clock) -> CircuitBreaker:
    """Return the same breaker after three failures."""
    found = breaker(time)
    for number in range(3):
        assert not found.enter()
        found.record_failure(f"failure {number}")
    return found


def test_it_opens_after_enough_failures_in_a_row_and_names_the_last_reason() -> None:
    found = opened(Clock())

    with pytest.raises(CircuitOpenError) as raised:
        found.enter()
    assert str(raised.value) == (
        "the judge endpoint is down: 3 calls in a row failed, the last one: failure 2"
    )
    with pytest.raises(CircuitOpenError):
        found.check()


def test_a_success_resets_the_count() -> None:
    found = breaker(Clock())
    for _ in range(5):
        found.record_failure("a failure")
        found.record_failure("a failure")
        found.record_success()

    assert not found.enter()


def test_after_the_pause_only_one_probe_is_admitted() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 29.9
    with pytest.raises(CircuitOpenError):
        found.enter()
    time.at_s += 0.1

    assert found.enter()

    with pytest.raises(CircuitOpenError):
        found.enter()


def test_a_probe_that_fails_opens_it_for_another_pause() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 30
    found.enter()
    found.record_failure("still down", was_probe=True)
    time.at_s += 29.9
    with pytest.raises(CircuitOpenError, match="4 calls in a row failed, the last one: still down"):
        found.enter()
    time.at_s += 0.1

    assert found.enter()


def test_calls_sent_before_it_opened_do_not_prolong_the_pause() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 20
    found.record_failure("a late one")
    time.at_s += 10

    assert found.enter()


def test_it_can_be_opened_immediately_with_a_given_reason() -> None:
    time = Clock()
    found = breaker(time)
    found.open("the key is wrong")

    with pytest.raises(CircuitOpenError, match="the key is wrong"):
        found.enter()
    time.at_s += 30
    assert found.enter()


def times(clock: Clock, requests: int | None, tokens: int | None, asked: list[int]) -> list[float]:
    """Return when requests of ``asked`` tokens, all made at once, are admitted."""
    limit = RateLimit(requests, tokens, lambda: clock.at_s, clock.sleep)

    async def all_of_them() -> list[float]:
        return [request.at_s for request in await asyncio.gather(*map(limit.acquire, asked))]

    return asyncio.run(all_of_them())


def test_without_a_limit_no_request_waits() -> None:
    assert times(Clock(), None, None, [10**9] * 100) == [0.0] * 100


def test_the_next_request_is_admitted_a_minute_after_the_first_of_a_full_window() -> None:
    assert times(Clock(), 2, None, [1] * 5) == [0, 0, 60, 60, 120]


def test_tokens_are_limited_like_requests() -> None:
    # 400 + 500 fit into 1,000, 200 more do not; a minute later 200 + 800 do.
    assert times(Clock(), None, 1000, [400, 500, 200, 800, 1]) == [0, 0, 60, 60, 120]


def test_a_request_larger_than_the_whole_limit_is_admitted_alone() -> None:
    assert times(Clock(), None, 1000, [10, 5000, 10]) == [0, 60, 120]


def test_requests_are_admitted_in_order_of_arrival() -> None:
    # The last one would fit immediately, next to the 600.
    assert times(Clock(), None, 1000, [600, 600, 100]) == [0, 60, 60]


def run(work: Coroutine[Any, Any, float]) -> float:
    """Run ``work`` and return its result."""
    return asyncio.run(work)


def test_actual_tokens_replace_estimated_ones() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        limit.correct(await limit.acquire(900), 300)
        return (await limit.acquire(700)).at_s

    assert run(work()) == 0


def test_more_tokens_than_estimated_make_the_next_one_wait() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        limit.correct(await limit.acquire(100), 900)
        return (await limit.acquire(200)).at_s

    assert run(work()) == 60


def test_a_correction_after_the_minute_changes_nothing() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        first = await limit.acquire(900)
        clock.at_s += 60
        await limit.acquire(500)
        limit.correct(first, 0)
        return (await limit.acquire(600)).at_s

    assert run(work()) == 120  # the 500 of second 60 must be gone


def test_every_request_waits_during_a_pause() -> None:
    clock = Clock()
    limit = RateLimit(None, None, lambda: clock.at_s, clock.sleep)
    limit.pause(20)
    limit.pause(5)  # a shorter one does not shorten it

    async def work() -> float:
        return (await limit.acquire(1)).at_s

    assert run(work()) == 20


@given(
    requests=st.integers(1, 5),
    tokens=st.integers(1, 100),
    asked=st.lists(st.integers(0, 100), max_size=30),
)
def test_no_minute_contains_more_than_the_limits(
    requests: int, tokens: int, asked: list[int]
) -> None:
    admitted = list(zip(times(Clock(), requests, tokens, asked), asked, strict=True))

    for begin, first in admitted:
        window = [each for at_s, each in admitted if begin <= at_s < begin + 60]
        assert len(window) <= requests
        assert sum(window) <= max(tokens, first)
