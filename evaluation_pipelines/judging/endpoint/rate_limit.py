"""Limit on requests and tokens per minute."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

_WINDOW_S = 60.0


class RateLimit:
    """Sliding-window limit that admits requests in order of arrival.

    No 60 seconds contain more than the limits. A leaky bucket would admit twice as many in the
    first minute, which endpoints with a fixed window answer with 429.
    """

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Start with an empty window; ``None`` is no limit."""
        self._max_requests = requests_per_minute
        self._max_tokens = tokens_per_minute
        self._monotonic = monotonic
        self._sleep = sleep
        self._queue = asyncio.Lock()
        self._admitted: deque[AdmittedRequest] = deque()
        self._tokens = 0
        self._paused_until = float("-inf")

    async def acquire(self, tokens: int) -> "AdmittedRequest":
        """Wait until a request of ``tokens`` tokens fits, and count it.

        A request that is larger than the whole limit is admitted when the window is empty.
        """
        async with self._queue:
            while (wait_s := self._wait_s(tokens)) > 0:
                await self._sleep(wait_s)
            admitted = AdmittedRequest(self._monotonic(), tokens)
            if self._max_requests is not None or self._max_tokens is not None:
                self._admitted.append(admitted)
                self._tokens += tokens
            return admitted

    def correct(self, admitted: "AdmittedRequest", tokens: int) -> None:
        """Replace the estimated number of tokens with the actual one."""
        if admitted.at_s > self._monotonic() - _WINDOW_S and self._max_tokens is not None:
            self._tokens += tokens - admitted.tokens
            admitted.tokens = tokens

    def pause(self, seconds: float) -> None:
        """Admit no request for ``seconds``, as the endpoint asked."""
        self._paused_until = max(self._paused_until, self._monotonic() + seconds)

    def _wait_s(self, tokens: int) -> float:
        now = self._monotonic()
        while self._admitted and self._admitted[0].at_s <= now - _WINDOW_S:
            self._tokens -= self._admitted.popleft().tokens
        pause_s = self._paused_until - now
        if self._admitted and not self._fits(tokens):
            return max(pause_s, self._admitted[0].at_s + _WINDOW_S - now)
        return pause_s

    def _fits(self, tokens: int) -> bool:
        requests_fit = self._max_requests is None or len(self._admitted) < self._max_requests
        tokens_fit = self._max_tokens is None or self._tokens + tokens <= self._max_tokens
        return requests_fit and tokens_fit


class AdmittedRequest:
    """A request that the limit admitted."""

    def __init__(self, at_s: float, tokens: int) -> None:
        self.at_s = at_s
        self.tokens = tokens
