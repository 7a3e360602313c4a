"""A limit on requests and tokens in any minute."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

_WINDOW_S = 60.0


class RateLimit:
    """Lets callers through in the order they came, never more than the limits in any 60 seconds.

    A leaky bucket would let twice as many through in the first minute, which endpoints with a fixed
    window answer with 429.
    """

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Begin with an empty window; None is no limit."""
        self._most_requests = requests_per_minute
        self._most_tokens = tokens_per_minute
        self._monotonic = monotonic
        self._sleep = sleep
        self._queue = asyncio.Lock()
        self._passed: deque[Passed] = deque()
        self._tokens = 0
        self._held_until = float("-inf")

    async def enter(self, tokens: int) -> "Passed":
        """Wait until a request of that many tokens fits, and count it.

        One that is larger than the whole limit goes through when the window is empty.
        """
        async with self._queue:
            while (wait_s := self._wait_s(tokens)) > 0:
                await self._sleep(wait_s)
            passed = Passed(self._monotonic(), tokens)
            if self._most_requests is not None or self._most_tokens is not None:
                self._passed.append(passed)
                self._tokens += tokens
            return passed

    def correct(self, passed: "Passed", tokens: int) -> None:
        """Put the true number of tokens in place of the estimate."""
        if passed.at_s > self._monotonic() - _WINDOW_S and self._most_tokens is not None:
            self._tokens += tokens - passed.tokens
            passed.tokens = tokens

    def hold(self, seconds: float) -> None:
        """Let nobody through for a while: the endpoint asked for it."""
        self._held_until = max(self._held_until, self._monotonic() + seconds)

    def _wait_s(self, tokens: int) -> float:
        now = self._monotonic()
        while self._passed and self._passed[0].at_s <= now - _WINDOW_S:
            self._tokens -= self._passed.popleft().tokens
        held_s = self._held_until - now
        if self._passed and not self._fits(tokens):
            return max(held_s, self._passed[0].at_s + _WINDOW_S - now)
        return held_s

    def _fits(self, tokens: int) -> bool:
        requests_fit = self._most_requests is None or len(self._passed) < self._most_requests
        tokens_fit = self._most_tokens is None or self._tokens + tokens <= self._most_tokens
        return requests_fit and tokens_fit


class Passed:
    """A request that was let through."""

    def __init__(self, at_s: float, tokens: int) -> None:
        self.at_s = at_s
        self.tokens = tokens
