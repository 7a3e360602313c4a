"""The circuit breaker, and the limits on requests and tokens per minute, on a simulated clock."""

import asyncio

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


def test_after_the_pause_one_probe_is_admitted_which_opens_it_again_if_it_fails() -> None:
    time = Clock()
    found = opened(time)
    for reason in ("3 calls in a row failed", "4 calls in a row failed, the last one: still down"):
        time.at_s += 29.9
        with pytest.raises(CircuitOpenError, match=reason):
            found.enter()
        time.at_s += 0.1
        assert found.enter()
        with pytest.raises(CircuitOpenError):
            found.enter()
        found.record_failure("still down", was_probe=True)


def test_calls_sent_before_it_opened_do_not_prolong_the_pause_and_it_can_be_opened_at_once() -> (
    None
):
    time = Clock()
    found = opened(time)
    time.at_s += 20
    found.record_failure("a late one")
    time.at_s += 10
    assert found.enter()
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


@pytest.mark.parametrize(
    ("requests", "tokens", "asked", "admitted"),
    [
        (None, None, [10**9] * 100, [0.0] * 100),
        (2, None, [1] * 5, [0, 0, 60, 60, 120]),
        # 400 + 500 fit into 1,000, 200 more do not; a minute later 200 + 800 do.
        (None, 1000, [400, 500, 200, 800, 1], [0, 0, 60, 60, 120]),
        # One that is larger than the whole limit is admitted alone.
        (None, 1000, [10, 5000, 10], [0, 60, 120]),
        # In the order of arrival: the last one would fit immediately, next to the 600.
        (None, 1000, [600, 600, 100], [0, 60, 60]),
    ],
)
def test_the_requests_and_tokens_of_a_minute_are_limited(
    requests: int | None, tokens: int | None, asked: list[int], admitted: list[float]
) -> None:
    assert times(Clock(), requests, tokens, asked) == admitted


@pytest.mark.parametrize(
    ("estimated", "actual", "then", "at_s"), [(900, 300, 700, 0), (100, 900, 200, 60)]
)
def test_actual_tokens_replace_estimated_ones(
    estimated: int, actual: int, then: int, at_s: float
) -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> float:
        limit.correct(await limit.acquire(estimated), actual)
        return (await limit.acquire(then)).at_s

    assert asyncio.run(work()) == at_s


def test_a_correction_after_the_minute_changes_nothing_and_every_request_waits_in_a_pause() -> None:
    clock = Clock()
    limit = RateLimit(None, 1000, lambda: clock.at_s, clock.sleep)

    async def work() -> list[float]:
        first = await limit.acquire(900)
        clock.at_s += 60
        await limit.acquire(500)
        limit.correct(first, 0)
        late = (await limit.acquire(600)).at_s
        limit.pause(70)
        limit.pause(5)  # a shorter one does not shorten it
        return [late, (await limit.acquire(1)).at_s]

    assert asyncio.run(work()) == [120, 190]  # the 500 of second 60 must be gone


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
