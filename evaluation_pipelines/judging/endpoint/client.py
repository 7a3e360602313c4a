"""Client of a judge behind any OpenAI-compatible endpoint.

Retries of one call are decided here, in ``JudgeClient.ask``, and nowhere else: the ``openai``
library is told not to retry (``transport.py``).

* Retried: connection errors, timeouts, status 408, 409, 429 and 5xx (except ``429`` with
  ``insufficient_quota``), and answers with status 200 that are not a chat completion.
* How often: ``CallLimits.attempts`` requests per call, 3 by default.
* Waits: a random 50 to 100% of ``first_wait_s`` (1 s), doubled for each further attempt, at most
  ``longest_wait_s`` (30 s). A ``Retry-After`` header replaces the wait (plus up to 10%) and holds
  back all requests; if it exceeds ``longest_retry_after_s`` (120 s), the call is not retried.
* A retry of a request that may have been charged is sent only if ``may_pay_again`` allows it.
* Not retried: every other status, and a failed probe of the circuit breaker. Refused, empty and
  truncated replies are answers.
* A request whose form is rejected is sent once more in another form (``transport.py``), which
  is kept for all later requests. It counts as the same attempt. A form that was answered once is
  accepted: a later rejection is about one call. After a 5xx that names the system role, which a
  template may not know, the next retry is in the other form.

Other retry mechanisms: ``limits.py`` probes an endpoint that is down;
``judging/domain/due.py`` decides when a failed judgment is repeated and how often an interrupted
one is resumed; ``docs/operations.md`` lists those of builds, Dagster runs and alerts.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias

from evaluation_pipelines.judging.domain.budget import Exchange, MeteredCall, Pricing, Usage
from evaluation_pipelines.judging.domain.prompt.messages import (
    Message,
    Reply,
    estimated_message_tokens,
    estimated_tokens,
)
from evaluation_pipelines.judging.endpoint.limits import (
    MAX_FAILURES,
    CircuitBreaker,
    CircuitOpenError,
    RateLimit,
)
from evaluation_pipelines.judging.endpoint.replies import (
    CHARACTERS_PER_TOKEN,
    BudgetReachedError,
    Fault,
    JudgeCallError,
    ParsedCompletion,
    read_completion,
)
from evaluation_pipelines.judging.endpoint.transport import (
    RequestForm,
    Transport,
    names_field,
    names_system_role,
)

Wire: TypeAlias = Callable[[Mapping[str, Any]], bytes]
"""Answers the body of a request with that of a response, in place of the network."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address, model and key of a judge; local servers need no key.

    A ``wire`` answers in place of the address.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    wire: Wire | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits for the calls of one endpoint; ``None`` is no limit.

    Attributes:
        concurrency: Maximum number of requests in flight.
        requests_per_minute: Maximum number of requests in any 60 seconds.
        tokens_per_minute: Maximum number of tokens in any 60 seconds; estimated before a request
            and corrected after it.
        timeout_s: Time limit of one request, from start to end.
        max_output_tokens: Maximum length of a reply.
        temperature: Sampling temperature; ``None`` leaves it to the model.
        attempts: Maximum number of requests per call.
        first_wait_s: Wait before the second attempt; doubled for each further one.
        longest_wait_s: Maximum of these waits.
        longest_retry_after_s: Longest ``Retry-After`` that is followed; a longer one ends the call.
        breaker_failures: Failed calls in a row after which the endpoint counts as down.
        breaker_pause_s: Time after which one call probes an endpoint that is down.
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
    breaker_failures: int = MAX_FAILURES
    breaker_pause_s: float = 30


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and randomness of a client; tests replace them."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """A reply with its cost.

    Attributes:
        reply: Text and finish reason; refused, empty and truncated replies too.
        usage: Tokens; ``None`` if the endpoint does not report them.
        cost_usd: Cost of the request that was answered; ``None`` if usage or price is unknown.
        latency_ms: Duration of that request, without waits; ``None`` in a batch.
        attempts: Number of requests that were sent.
        is_usage_estimated: Whether the reported tokens were impossible and ``usage`` is estimated.
    """

    reply: Reply
    usage: Usage | None
    cost_usd: float | None
    latency_ms: float | None = None
    attempts: int = 1
    is_usage_estimated: bool = False


def answer_of(completion: ParsedCompletion, exchange: Exchange, pricing: Pricing) -> JudgeAnswer:
    """Return a reply with its cost; tokens that ``exchange`` does not allow are estimated."""
    usage = completion.usage
    is_estimated = usage is not None and not exchange.is_possible(usage)
    usage = exchange.estimate() if is_estimated else usage
    cost = None if usage is None else pricing.cost_usd(usage)
    return JudgeAnswer(completion.reply, usage, cost, is_usage_estimated=is_estimated)


def sizes_of(messages: Sequence[Message]) -> tuple[int, int]:
    """Return bytes and estimated tokens of a request."""
    length = sum(len(message.content.encode("utf-8", "replace")) for message in messages)
    return length, estimated_message_tokens(messages)


def exchange_of(
    sent_bytes: int, sent_tokens: int, reply: Reply, max_output_tokens: int
) -> Exchange:
    """Return a request of some size and its reply."""
    size = len(reply.text.encode()), estimated_tokens(reply.text)
    return Exchange(sent_bytes, sent_tokens, *size, max_output_tokens)


# The endpoint is up: it answers, and the next call may succeed.
_ABOUT_ONE_CALL = frozenset((Fault.CONTENT_FILTER, Fault.TOO_LONG))


async def _always() -> bool:
    return True


class JudgeClient:
    """Client of one endpoint for one run; use as ``async with``.

    ``requests_sent`` counts requests, answered or not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limits: CallLimits,
        pricing: Pricing,
        timing: Timing | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Configure the client; connections are opened by ``async with``.

        ``breaker`` is one that other clients of the endpoint share; ``None`` for an own one.
        """
        self._endpoint = endpoint
        self._limits = limits
        self._pricing = pricing
        self._timing = timing or Timing()
        clock, sleep = self._timing.monotonic, self._timing.sleep
        per_minute = (limits.requests_per_minute, limits.tokens_per_minute)
        self._rate_limit = RateLimit(*per_minute, clock, sleep)
        self._breaker = breaker or CircuitBreaker(
            limits.breaker_failures, limits.breaker_pause_s, clock
        )
        self._semaphore = asyncio.Semaphore(limits.concurrency)
        self._transport: Transport | None = None
        self._form = RequestForm()
        self._accepted_form: RequestForm | None = None
        self.requests_sent = 0

    async def __aenter__(self) -> Self:
        limits, endpoint = self._limits, self._endpoint
        if endpoint.wire is None:
            self._transport = Transport(
                endpoint.base_url, endpoint.api_key, limits.timeout_s, limits.concurrency
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def ask(
        self, messages: Sequence[Message], may_pay_again: Callable[[], Awaitable[bool]] = _always
    ) -> JudgeAnswer:
        """Send a conversation and wait for the answer; retry as the module docstring says.

        A caller that cancels this must book a request in flight at unknown cost.

        Args:
            messages: The whole conversation, the last message from the user.
            may_pay_again: Called before a retry of a request that may have been charged; ``False``
                prevents the retry.

        Raises:
            JudgeCallError: All attempts failed, or a retry would not help.
            CircuitOpenError: The endpoint is down or refuses every call.
            BudgetReachedError: ``may_pay_again`` returned ``False``; the charges are booked.
        """
        for attempt in range(1, self._limits.attempts + 1):
            try:
                completion, latency_ms = await self._request(messages)
            except JudgeCallError as error:
                wait_s = self._wait_s(error, attempt)
                if wait_s is None:
                    self._record_failed_call(error)
                    raise
                if error.maybe_charged and not await may_pay_again():
                    raise BudgetReachedError(
                        f"the budget does not allow a retry: {error.reason}"
                    ) from error
                self._adapt_form(error)
                await self._timing.sleep(wait_s)
            else:
                most = self._limits.max_output_tokens
                exchange = exchange_of(*sizes_of(messages), completion.reply, most)
                found = answer_of(completion, exchange, self._pricing)
                return replace(found, latency_ms=latency_ms, attempts=attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _request(self, messages: Sequence[Message]) -> tuple[ParsedCompletion, float]:
        """Send one request, in another form if the endpoint rejects the first one."""
        while True:
            form = self._form
            try:
                return await self._request_as(form, messages)
            except JudgeCallError as error:
                if self._form == form:  # no other request has changed it meanwhile
                    other = self._other_form(form, messages, error)
                    if other is None:
                        raise
                    self._form = other

    def _other_form(
        self, form: RequestForm, messages: Sequence[Message], error: JudgeCallError
    ) -> RequestForm | None:
        # What was answered before is accepted: the rejection is about this one call.
        if error.fault is not Fault.REJECTED or form == self._accepted_form:
            return None
        other = form.alternative(error.reason)
        is_same = other is None or self._body(other, messages) == self._body(form, messages)
        return None if is_same else other

    def _adapt_form(self, error: JudgeCallError) -> None:
        """Retry without a system message if the template of a server has failed because of it."""
        is_open = self._form != self._accepted_form
        if error.fault is Fault.SERVER_ERROR and is_open and names_system_role(error.reason):
            self._form = replace(self._form, has_system=False)

    async def _request_as(
        self, form: RequestForm, messages: Sequence[Message]
    ) -> tuple[ParsedCompletion, float]:
        """Send one request; return its completion and its duration in milliseconds."""
        most = self._limits.max_output_tokens
        tokens = estimated_message_tokens(messages) + most
        async with self._semaphore:
            self._breaker.check()
            admitted = await self._rate_limit.acquire(tokens)
            is_probe = self._breaker.enter()
            started = self._timing.monotonic()
            try:
                body = await self._send(self._body(form, messages))
                characters = most * CHARACTERS_PER_TOKEN
                completion = read_completion(body, characters, self._endpoint.api_key)
            except JudgeCallError as error:
                is_last_form = self._other_form(form, messages, error) is None
                is_form_rejected = (
                    error.fault is Fault.REJECTED
                    and form != self._accepted_form
                    and names_field(error.reason)
                )
                self._record_failed_request(
                    error,
                    is_probe=is_probe,
                    is_last_form=is_last_form,
                    is_form_rejected=is_form_rejected,
                )
                raise
            except BaseException:
                if is_probe:
                    self._breaker.abandon_probe()
                raise
            latency_ms = (self._timing.monotonic() - started) * 1000
        self._breaker.record_success()
        self._accepted_form = form
        if completion.usage is not None:
            self._rate_limit.correct(admitted, completion.usage.all_tokens)
        return completion, latency_ms

    def _body(self, form: RequestForm, messages: Sequence[Message]) -> dict[str, Any]:
        limits = self._limits
        return form.body(
            self._endpoint.model, messages, limits.max_output_tokens, limits.temperature
        )

    async def _send(self, body: dict[str, Any]) -> bytes:
        self.requests_sent += 1
        if self._endpoint.wire is not None:
            return self._endpoint.wire(body)
        if self._transport is None:
            raise RuntimeError("the client is not open: use it as `async with`")
        return await self._transport.send(body, self._timing.now)

    def _record_failed_request(
        self, error: JudgeCallError, *, is_probe: bool, is_last_form: bool, is_form_rejected: bool
    ) -> None:
        """Update the circuit breaker after a failed request.

        Raises:
            CircuitOpenError: In place of the error if no single call caused it.
        """
        if error.fault is Fault.MISCONFIGURED or (is_form_rejected and is_last_form):
            self._breaker.open(error.reason)
            raise CircuitOpenError(error.reason, error.cost_usd, was_sent=True) from error
        if error.fault in _ABOUT_ONE_CALL or not is_last_form:
            self._breaker.record_success()
        elif is_probe:
            self._breaker.record_failure(error.reason, was_probe=True)
            raise CircuitOpenError(error.reason, error.cost_usd, was_sent=True) from error
        elif self._breaker.counts_requests:
            self._breaker.record_failure(error.reason)

    def _record_failed_call(self, error: JudgeCallError) -> None:
        if error.fault not in _ABOUT_ONE_CALL and not self._breaker.counts_requests:
            self._breaker.record_failure(error.reason)

    def _wait_s(self, error: JudgeCallError, attempt: int) -> float | None:
        """Return the seconds to wait before the next attempt; ``None`` for no further attempt."""
        limits, jitter = self._limits, self._timing.jitter()
        if not error.retriable or attempt == limits.attempts:
            return None
        if error.retry_after_s is None:
            longest = min(limits.first_wait_s * 2.0 ** (attempt - 1), limits.longest_wait_s)
            return longest * (1 + jitter) / 2
        if error.retry_after_s > limits.longest_retry_after_s:
            return None
        self._rate_limit.pause(error.retry_after_s)
        return error.retry_after_s * (1 + jitter / 10)


async def ask_metered(
    client: JudgeClient,
    messages: Sequence[Message],
    metered: MeteredCall,
    reserve_again: Callable[[], Awaitable[bool]],
) -> JudgeAnswer:
    """Make a call for which money is reserved, and book its actual cost.

    Args:
        client: Client of the model.
        messages: The request.
        metered: Books the attempts of the call.
        reserve_again: Reserves the same amount in the daily budget for another attempt after one
            that may have been charged; returns whether it fits.

    Raises:
        As ``JudgeClient.ask``.
    """

    async def may_pay_again() -> bool:
        if not metered.may_pay_again():
            return False
        if await reserve_again():
            return True
        metered.cancel_retry()
        return False

    cost_usd: float | None = None  # of a canceled call, or of a bug
    try:
        answer = await client.ask(messages, may_pay_again)
        cost_usd = answer.cost_usd
    except (JudgeCallError, CircuitOpenError, BudgetReachedError) as error:
        cost_usd = error.cost_usd
        raise
    finally:
        metered.settle(cost_usd)
    return answer
