"""Asks a judge behind any OpenAI-compatible endpoint, and never more of it than is good."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from evaluation_pipelines.judging.domain.budget.pricing import Pricing, Usage
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitBreaker, CircuitOpenError
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.rate_limit import RateLimit
from evaluation_pipelines.judging.endpoint.replies import (
    ParsedCompletion,
    read_completion,
    sound_text,
)
from evaluation_pipelines.judging.endpoint.transport import Transport


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and whom to ask; local servers need no key."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How an endpoint is treated; None is no limit.

    Attributes:
        concurrency: Requests under way at the same time.
        requests_per_minute: In any 60 seconds.
        tokens_per_minute: The same; estimated before, corrected after a request.
        timeout_s: Of one request, from start to end.
        max_output_tokens: Longest reply.
        temperature: None leaves it to the model.
        attempts: Requests for one answer.
        first_wait_s: Before the second attempt; doubled for each one after.
        longest_wait_s: Of those waits.
        longest_retry_after_s: An endpoint that asks to wait longer is not asked again.
        breaker_failures: Calls in a row that fail before the endpoint counts as down.
        breaker_pause_s: After which one call tries whether it is up again.
    """

    concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    timeout_s: float = 300
    max_output_tokens: int = 4000
    temperature: float | None = 0.0
    attempts: int = 3
    first_wait_s: float = 1
    longest_wait_s: float = 30
    longest_retry_after_s: float = 120
    breaker_failures: int = 5
    breaker_pause_s: float = 30


@dataclass(frozen=True, slots=True)
class Timing:
    """The clocks of a client; tests have their own."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A reply and what it took.

    Attributes:
        reply: What the judge says; refused, empty and cut replies too.
        usage: None when the endpoint does not tell.
        cost_usd: Of the request that was answered; None when usage or price is unknown.
        latency_ms: From sending that request to the end of its answer, without waits.
        attempts: Requests that were sent.
        maybe_charged_attempts: Those of them that failed and may have been charged all the same.
    """

    reply: Reply
    usage: Usage | None
    cost_usd: float | None
    latency_ms: float
    attempts: int
    maybe_charged_attempts: int


# The endpoint is well: it answers, and the next call may fare better.
_ABOUT_ONE_CALL = frozenset((Fault.CONTENT_FILTER, Fault.TOO_LONG))


async def _always() -> bool:
    return True


class JudgeClient:
    """One endpoint for one run; use as ``async with``."""

    def __init__(
        self, endpoint: Endpoint, limits: CallLimits, pricing: Pricing, timing: Timing | None = None
    ) -> None:
        """Prepare; nothing is opened before ``async with``."""
        self._endpoint = endpoint
        self._limits = limits
        self._pricing = pricing
        self._timing = timing or Timing()
        clock, sleep = self._timing.monotonic, self._timing.sleep
        per_minute = (limits.requests_per_minute, limits.tokens_per_minute)
        self._rate = RateLimit(*per_minute, clock, sleep)
        self._breaker = CircuitBreaker(limits.breaker_failures, limits.breaker_pause_s, clock)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._transport: Transport | None = None

    async def __aenter__(self) -> Self:
        limits = self._limits
        endpoint = self._endpoint
        self._transport = Transport(
            endpoint.base_url, endpoint.api_key, limits.timeout_s, limits.concurrency
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def ask(
        self, messages: Sequence[Message], may_pay_again: Callable[[], Awaitable[bool]] = _always
    ) -> JudgeAnswer:
        """Send a conversation and wait for the answer, with retries.

        Who cancels this must book a request that was under way as one of unknown cost.

        Args:
            messages: All of it, the last one from the user.
            may_pay_again: Asked before a retry of a request that may have been charged.

        Raises:
            JudgeCallError: no attempt succeeded, or a retry would not help.
            CircuitOpenError: the endpoint is down or refuses everybody.
            BudgetReachedError: ``may_pay_again`` said no; what was charged is booked.
        """
        maybe_charged = 0
        for attempt in range(1, self._limits.attempts + 1):
            try:
                completion, latency_ms = await self._request(messages)
            except JudgeCallError as error:
                error.attempts = attempt
                wait_s = self._wait_s(error, attempt)
                if wait_s is None:
                    self._give_up(error)
                    raise
                if error.maybe_charged and not await may_pay_again():
                    raise BudgetReachedError(f"no money for a retry: {error.reason}") from error
                maybe_charged += error.maybe_charged
                await self._timing.sleep(wait_s)
            else:
                usage = completion.usage
                cost = None if usage is None else self._pricing.cost_usd(usage)
                return JudgeAnswer(
                    completion.reply, usage, cost, latency_ms, attempt, maybe_charged
                )
        raise AssertionError("the last attempt returns or raises")

    async def _request(self, messages: Sequence[Message]) -> tuple[ParsedCompletion, float]:
        """One request: what came back, and how long it took (ms)."""
        tokens = estimated_message_tokens(messages) + self._limits.max_output_tokens
        async with self._slots:
            self._breaker.check()
            passed = await self._rate.enter(tokens)
            is_probe = self._breaker.enter()
            began = self._timing.monotonic()
            try:
                completion = read_completion(await self._send(messages))
            except JudgeCallError as error:
                self._note(error, is_probe=is_probe)
                raise
            except BaseException:
                if is_probe:
                    self._breaker.abandon_probe()
                raise
            latency_ms = (self._timing.monotonic() - began) * 1000
        self._breaker.succeeded()
        if completion.usage is not None:
            self._rate.correct(passed, completion.usage.all_tokens)
        return completion, latency_ms

    async def _send(self, messages: Sequence[Message]) -> bytes:
        if self._transport is None:
            raise RuntimeError("the client is not open: use it as `async with`")
        body: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [
                {"role": each.role, "content": sound_text(each.content)} for each in messages
            ],
            "max_completion_tokens": self._limits.max_output_tokens,
        }
        if self._limits.temperature is not None:
            body["temperature"] = self._limits.temperature
        return await self._transport.send(body, self._timing.now)

    def _note(self, error: JudgeCallError, *, is_probe: bool) -> None:
        """Tell the breaker about a failed request.

        Raises:
            CircuitOpenError: instead of the error, where no call is to blame for it.
        """
        if error.fault is Fault.MISCONFIGURED:
            self._breaker.open(error.reason)
            raise CircuitOpenError(error.reason, error.cost_usd) from error
        if error.fault in _ABOUT_ONE_CALL:
            self._breaker.succeeded()
        elif is_probe:
            self._breaker.failed(error.reason, was_probe=True)
            raise CircuitOpenError(error.reason, error.cost_usd) from error

    def _give_up(self, error: JudgeCallError) -> None:
        if error.fault not in _ABOUT_ONE_CALL:
            self._breaker.failed(error.reason)

    def _wait_s(self, error: JudgeCallError, attempt: int) -> float | None:
        """How long to wait before the next attempt; None when there is none."""
        limits, jitter = self._limits, self._timing.jitter()
        if not error.retriable or attempt == limits.attempts:
            return None
        if error.retry_after_s is None:
            longest = min(limits.first_wait_s * 2.0 ** (attempt - 1), limits.longest_wait_s)
            return longest * (1 + jitter) / 2
        if error.retry_after_s > limits.longest_retry_after_s:
            return None
        self._rate.hold(error.retry_after_s)
        return error.retry_after_s * (1 + jitter / 10)
