"""Concurrent calls: limits, and an endpoint that goes down."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, JudgeClient
from evaluation_pipelines.judging.endpoint.limits import CircuitOpenError
from evaluation_pipelines.judging.endpoint.replies import JudgeCallError
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import (
    hangs,
    http_error,
    rate_limited,
    says,
)
from evaluation_pipelines_tests.judging.endpoint.judge_calls import QUESTION, Clock, run


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    """A scripted judge."""
    with open_judge_endpoint() as opened:
        yield opened


async def failure(opened: JudgeClient) -> str:
    """Return the error type of a call that must fail."""
    with pytest.raises((JudgeCallError, CircuitOpenError)) as raised:
        await opened.ask(QUESTION)
    return type(raised.value).__name__


async def many(opened: JudgeClient, calls: int) -> list[JudgeAnswer]:
    """Make ``calls`` calls concurrently."""
    return await asyncio.gather(*(opened.ask(QUESTION) for _ in range(calls)))


def test_concurrency_is_limited(judge: JudgeEndpoint) -> None:
    judge.latency_s = 0.02

    answers = run(judge, lambda opened: many(opened, 100), concurrency=8)

    assert len(answers) == len(judge.requests) == 100
    assert judge.max_in_flight == 8


def test_tokens_per_minute_are_limited_by_their_actual_number(
    judge: JudgeEndpoint,
) -> None:
    # Two short messages and 73 reply tokens are estimated below 200; the actual usage is 400.
    judge.always(says("85", usage={"prompt_tokens": 300, "completion_tokens": 100}))
    clock = Clock()

    async def in_turn(opened: JudgeClient) -> None:
        for _ in range(4):
            await opened.ask(QUESTION)

    run(judge, in_turn, clock, tokens_per_minute=1_000, max_output_tokens=73)

    # 400, 800 and 1,200 after three: the fourth must wait.
    assert clock.slept == [60]


class FirstWaits(Clock):
    """A clock on which the first sleeper wakes only after another one has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.woke = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Sleep; the first call advances no time."""
        if self.slept:
            await super().sleep(seconds)
            self.woke.set()
        else:
            self.slept.append(seconds)
            self.first.set()
            await self.woke.wait()


def test_retry_after_holds_back_every_request(judge: JudgeEndpoint) -> None:
    judge.script(rate_limited("10"))
    clock = FirstWaits()

    async def work(opened: JudgeClient) -> None:
        refused = asyncio.create_task(opened.ask(QUESTION))
        await clock.first.wait()
        await opened.ask(QUESTION)
        await refused

    run(judge, work, clock)

    assert clock.slept == [11, 10]  # the refused call adds a tenth
    assert len(judge.requests) == 3


def test_when_the_endpoint_is_down_the_remaining_calls_are_not_sent(
    judge: JudgeEndpoint,
) -> None:
    judge.always(http_error(500))

    async def work(opened: JudgeClient) -> list[str]:
        return [await failure(opened) for _ in range(100)]

    ended = run(judge, work)

    assert ended == ["JudgeCallError"] * 5 + ["CircuitOpenError"] * 95
    assert len(judge.requests) == 15  # 5 calls with 3 attempts


def test_with_the_endpoint_down_no_call_waits_for_the_rate_limit(
    judge: JudgeEndpoint,
) -> None:
    judge.script(http_error(401))
    clock = Clock()

    async def work(opened: JudgeClient) -> list[str]:
        return [await failure(opened) for _ in range(9)]

    assert run(judge, work, clock, requests_per_minute=1) == ["CircuitOpenError"] * 9
    assert clock.slept == []


def test_calls_that_wait_for_a_retry_stop_when_the_breaker_opens(judge: JudgeEndpoint) -> None:
    judge.always(http_error(500))

    async def work(opened: JudgeClient) -> list[str]:
        return await asyncio.gather(*(failure(opened) for _ in range(200)))

    ended = run(judge, work, concurrency=4)

    assert ended.count("JudgeCallError") <= 5 + 4
    assert ended.count("CircuitOpenError") >= 191
    assert len(judge.requests) <= 600


def test_one_probe_detects_that_the_endpoint_is_up_again(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.script(*[http_error(500)] * 15)

    async def work(opened: JudgeClient) -> None:
        for _ in range(5):
            await failure(opened)
        assert await failure(opened) == "CircuitOpenError"
        clock.at_s += 30
        judge.latency_s = 0.05
        ended = await asyncio.gather(
            *(opened.ask(QUESTION) for _ in range(6)), return_exceptions=True
        )
        assert [type(each) for each in ended].count(CircuitOpenError) == 5
        assert len(judge.requests) == 16
        await many(opened, 6)

    run(judge, work, clock)
    assert len(judge.requests) == 22


def test_a_failed_probe_is_tried_once_and_fails_no_session(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.always(http_error(500))

    async def work(opened: JudgeClient) -> None:
        for _ in range(5):
            await failure(opened)
        clock.at_s += 30
        with pytest.raises(CircuitOpenError, match="answered 500") as raised:
            await opened.ask(QUESTION)
        assert raised.value.cost_usd is None  # it may have been charged
        assert await failure(opened) == "CircuitOpenError"

    run(judge, work, clock)
    assert len(judge.requests) == 16


def test_a_canceled_probe_is_followed_by_another_one(judge: JudgeEndpoint) -> None:
    clock = Clock()
    judge.script(*[http_error(500)] * 15, hangs())

    async def work(opened: JudgeClient) -> JudgeAnswer:
        for _ in range(5):
            await failure(opened)
        clock.at_s += 30
        probe = asyncio.create_task(opened.ask(QUESTION))
        await asyncio.to_thread(judge.wait_for, 16)
        probe.cancel()
        with suppress(asyncio.CancelledError):
            await probe
        return await opened.ask(QUESTION)

    assert run(judge, work, clock).attempts == 1


def test_rejections_in_a_row_stop_the_run_since_no_session_causes_them(
    judge: JudgeEndpoint,
) -> None:
    judge.always(http_error(400, "invalid content"))

    async def work(opened: JudgeClient) -> list[str]:
        return [await failure(opened) for _ in range(9)]

    assert run(judge, work) == ["JudgeCallError"] * 5 + ["CircuitOpenError"] * 4


def test_a_session_that_is_too_long_shows_that_the_endpoint_is_up(judge: JudgeEndpoint) -> None:
    four_failures = [http_error(503)] * 4
    judge.script(*four_failures, http_error(413), *four_failures, says("85"))

    async def work(opened: JudgeClient) -> str:
        assert [await failure(opened) for _ in range(9)] == ["JudgeCallError"] * 9
        return (await opened.ask(QUESTION)).reply.text

    assert run(judge, work, attempts=1) == "85"
