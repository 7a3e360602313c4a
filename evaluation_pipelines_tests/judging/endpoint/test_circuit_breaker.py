"""The circuit breaker: when it opens, who tries again, and what its state tells."""

import pytest

from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitBreaker, CircuitOpenError
from evaluation_pipelines_tests.judging.endpoint.judge_calls import Clock


def breaker(time: Clock) -> CircuitBreaker:
    """One that opens at the third failure, for 30 seconds."""
    return CircuitBreaker(failures=3, pause_s=30, monotonic=lambda: time.at_s)


def opened(time: Clock) -> CircuitBreaker:
    """The same after three failures."""
    found = breaker(time)
    for number in range(3):
        assert not found.enter()
        found.failed(f"failure {number}")
    return found


def test_it_opens_when_enough_calls_in_a_row_have_failed_and_tells_the_last_reason() -> None:
    found = opened(Clock())

    with pytest.raises(CircuitOpenError) as raised:
        found.enter()
    assert str(raised.value) == (
        "the judge endpoint is down: 3 calls in a row failed, the last one: failure 2"
    )
    with pytest.raises(CircuitOpenError):
        found.check()


def test_a_success_begins_the_row_anew() -> None:
    found = breaker(Clock())
    for _ in range(5):
        found.failed("a failure")
        found.failed("a failure")
        found.succeeded()

    assert not found.enter()


def test_after_the_pause_one_probe_is_let_through_and_nobody_else() -> None:
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
    found.succeeded()

    assert not found.enter()
    found.failed("a failure")
    assert not found.enter()  # the row begins anew


def test_a_probe_that_fails_opens_it_for_another_pause() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 30
    found.enter()
    found.failed("still down", was_probe=True)
    time.at_s += 29.9
    with pytest.raises(CircuitOpenError, match="4 calls in a row failed, the last one: still down"):
        found.enter()
    time.at_s += 0.1

    assert found.enter()


def test_a_probe_that_was_given_up_leaves_its_place_to_another_one() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 30
    found.enter()
    found.abandon_probe()

    assert found.enter()


def test_calls_that_set_out_before_it_opened_do_not_prolong_the_pause() -> None:
    time = Clock()
    found = opened(time)
    time.at_s += 20
    found.failed("a late one")
    time.at_s += 10

    assert found.enter()


def test_it_can_be_opened_at_once_with_a_reason_of_its_own() -> None:
    time = Clock()
    found = breaker(time)
    found.open("the key is wrong")

    with pytest.raises(CircuitOpenError, match="the key is wrong"):
        found.enter()
    time.at_s += 30
    assert found.enter()
