"""The circuit breaker, limits per minute on a simulated clock, and who caused failed calls."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.endpoint.limits import (
    Blame,
    CircuitBreaker,
    CircuitOpenError,
    RateLimit,
    Suspect,
    Symptom,
)
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

    async def admitted() -> list[float]:
        return [request.at_s for request in await asyncio.gather(*map(limit.acquire, asked))]

    return asyncio.run(admitted())


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
        window = [tokens for at_s, tokens in admitted if begin <= at_s < begin + 60]
        assert len(window) <= requests
        assert sum(window) <= max(tokens, first)


def suspect(number: int, symptom: Symptom = "rejected", reason: str = "400: bad") -> Suspect:
    """Return a suspect that may be tried again."""
    return Suspect(f"s{number}", symptom, reason, retriable=True)


def blame(*suspects: Suspect) -> Blame:
    """Return the blame after some failed calls."""
    found = Blame(max_useless=3)
    for blamed in suspects:
        found.add(blamed)
    return found


def test_a_later_reply_shows_that_the_sessions_are_guilty() -> None:
    found = blame(suspect(1, "faulty"), suspect(2, "silent"), suspect(3, "other"))
    assert found.take_guilty() == []

    found.note_reply(None)
    assert [blamed.score_id for blamed in found.take_guilty()] == ["s1", "s2", "s3"]
    assert found.take_guilty() == []
    assert found.settle(is_endpoint_down=True) == ([], [])


def test_three_sessions_with_the_same_rejection_stop_a_run() -> None:
    found = blame(suspect(1, reason="400: bad 1"), suspect(2, reason="400: bad 22"))
    assert found.stop_reason() is None

    found.add(suspect(3, reason="400: bad 333"))
    assert found.stop_reason() == "400: bad 333. 3 sessions got the same answer"
    other = blame(suspect(1), suspect(2), suspect(3, reason="400: else"))
    assert other.stop_reason() is None
    repeated = blame(suspect(1), suspect(1), suspect(1))  # one session with several requests
    assert repeated.stop_reason() is None
    assert repeated.settle(is_endpoint_down=False) == ([suspect(1)] * 3, [])


def test_replies_in_between_do_not_make_several_sessions_with_the_same_rejection_guilty() -> None:
    found = Blame(max_useless=3)
    for number in (1, 2, 3):
        found.add(suspect(number, reason=f"400: no credit (request id req_a{number}Fx)"))
        found.note_reply(None)  # of a request that was sent before
    found.add(suspect(4, reason="400: bad image"))
    found.note_reply(None)

    assert found.take_guilty() == []
    assert "3 sessions got the same answer" in (found.stop_reason() or "")
    failed, due = found.settle(is_endpoint_down=False)
    assert [blamed.score_id for blamed in failed] == ["s4"]
    assert [blamed.score_id for blamed in due] == ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    "reasons",
    [
        ("400: bad (request 7f3a-11)", "400: bad (request 9c-2)"),
        ("400: bad id=Zm9v0A==", "400: bad id=YmFy1+/8"),
        (f"400: {'words ' * 20} of one", f"400: {'words ' * 20} of another"),
    ],
)
def test_ids_and_the_end_of_a_rejection_do_not_count(reasons: tuple[str, str]) -> None:
    one, two = reasons
    assert suspect(1, reason=one).pattern == suspect(2, reason=two).pattern
    assert suspect(1, reason="400: bad").pattern != suspect(2, reason="400: else").pattern


@pytest.mark.parametrize(
    ("suspects", "is_down", "due"),
    [
        ([suspect(1)], False, []),  # one rejection may be about the session
        ([suspect(1), suspect(2)], False, ["s1", "s2"]),
        ([suspect(1), suspect(2, reason="400: else")], False, []),
        ([suspect(1, "silent", "no answer")], False, ["s1"]),
        ([suspect(1, "faulty", "500")], False, []),
        ([suspect(1, "faulty", "500")], True, ["s1"]),
        ([suspect(1, "faulty", "500: a"), suspect(2, "faulty", "429: b")], False, ["s1", "s2"]),
        ([suspect(1, "other", "too long"), suspect(2, "other", "too long")], True, []),
    ],
)
def test_without_a_reply_the_endpoint_is_blamed_for_silence_and_for_what_is_alike(
    suspects: list[Suspect], is_down: bool, due: list[str]
) -> None:
    failed, still_due = blame(*suspects).settle(is_endpoint_down=is_down)

    assert [blamed.score_id for blamed in still_due] == due
    others = {suspected.score_id for suspected in suspects} - {*due}
    assert {blamed.score_id for blamed in failed} == others


def test_silence_after_a_reply_is_the_fault_of_the_session() -> None:
    found = Blame(max_useless=3)
    found.note_reply(None)
    found.add(suspect(1, "silent"))

    assert found.settle(is_endpoint_down=False) == ([suspect(1, "silent")], [])


def test_useless_replies_stop_a_run_only_in_a_row() -> None:
    found = Blame(max_useless=3)
    for why in ("empty", "empty", None, "empty", "cut"):
        found.note_reply(why)
        assert found.stop_reason() is None

    found.note_reply("cut")
    assert found.stop_reason() == "3 replies in a row were unusable, the last one: cut"
