"""The circuit breaker: when it opens, when it probes, and how it closes."""

import pytest

from evaluation_pipelines.judging.endpoint.limits import CircuitBreaker, CircuitOpenError
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


def test_a_probe_that_succeeds_closes_it() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 30
    found.enter()
    found.record_success()

    assert not found.enter()
    found.record_failure("a failure")
    assert not found.enter()  # the count starts again


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


def test_an_abandoned_probe_is_followed_by_another_one() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 30
    found.enter()
    found.abandon_probe()

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
