"""A client of the scripted judge with simulated clocks."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from evaluation_pipelines.judging.domain.budget import Price, Pricing
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.client import (
    CallLimits,
    Endpoint,
    JudgeAnswer,
    JudgeClient,
    Timing,
)
from evaluation_pipelines.judging.endpoint.replies import JudgeCallError
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint

Result = TypeVar("Result")

_LONGEST_S = 60

KEY = "sk-test-0123456789abcdef"
BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
QUESTION = (Message("system", "You judge."), Message("user", "A secret transcript."))
# $2 and $8 per million tokens, $1 from the cache
PRICE = Price(2.0, 8.0, 1.0)


@dataclass
class Clock:
    """Simulated time that advances only during sleeps."""

    at_s: float = 0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Advance the time by ``seconds`` and let other tasks run."""
        self.slept.append(seconds)
        self.at_s += seconds
        await asyncio.sleep(0)

    def timing(self, jitter: float = 1.0) -> Timing:
        """Return clocks for a client; jitter 1 makes each wait as long as possible."""
        return Timing(
            monotonic=lambda: self.at_s,
            sleep=self.sleep,
            now=lambda: BEGIN + timedelta(seconds=self.at_s),
            jitter=lambda: jitter,
        )


def client(
    judge: JudgeEndpoint, clock: Clock | None = None, pricing: Pricing = PRICE, **limits: Any
) -> JudgeClient:
    """Return a client of the endpoint."""
    endpoint = Endpoint(judge.base_url, "judge-model", KEY)
    return JudgeClient(endpoint, CallLimits(**limits), pricing, (clock or Clock()).timing())


def ask(judge: JudgeEndpoint, clock: Clock | None = None, **limits: Any) -> JudgeAnswer:
    """Ask one question with a client that is opened and closed for it."""
    return run(judge, lambda opened: opened.ask(QUESTION), clock, **limits)


def failed(judge: JudgeEndpoint, clock: Clock | None = None, **limits: Any) -> JudgeCallError:
    """Ask one question and return why there is no answer."""
    with pytest.raises(JudgeCallError) as raised:
        ask(judge, clock, **limits)
    return raised.value


def run(
    judge: JudgeEndpoint,
    work: Callable[[JudgeClient], Awaitable[Result]],
    clock: Clock | None = None,
    **limits: Any,
) -> Result:
    """Run ``work`` with an open client."""

    async def opened() -> Result:
        # An endless wait must fail the test, not hang it.
        async with asyncio.timeout(_LONGEST_S), client(judge, clock, **limits) as ready:
            return await work(ready)

    return asyncio.run(opened())
