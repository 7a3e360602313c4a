"""Circuit breaker that stops requests to an endpoint that is down."""

from collections.abc import Callable
from threading import RLock


class CircuitOpenError(Exception):
    """The endpoint is down or refuses every call; no session caused it, and all stay due.

    ``was_sent`` says whether a request of this call detected it. ``cost_usd`` is the cost of that
    request: 0, or ``None`` if unknown.
    """

    def __init__(
        self, reason: str, cost_usd: float | None = 0.0, *, was_sent: bool = False
    ) -> None:
        super().__init__(reason)
        self.cost_usd = cost_usd
        self.was_sent = was_sent


class CircuitBreaker:
    """Opens after several failures in a row; then it admits one probe at a time.

    A probe is admitted after a pause since the last failure. A probe that succeeds closes the
    breaker. Threads may share one.
    """

    def __init__(
        self,
        failures: int,
        pause_s: float,
        monotonic: Callable[[], float],
        *,
        counts_requests: bool = False,
    ) -> None:
        """Create a closed breaker.

        Args:
            failures: Failed calls in a row after which it opens.
            pause_s: Seconds between the last failure and the next probe.
            monotonic: Clock in seconds.
            counts_requests: Count each failed request of a call, not the call. Calls that are made
                at the same time would all be repeated before the first of them has failed.
        """
        self.counts_requests = counts_requests
        self._lock = RLock()
        self._max_failures = failures
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._failures = 0
        self._probe_at_s: float | None = None
        self._is_probing = False
        self._reason = ""

    def check(self) -> None:
        """Raise ``CircuitOpenError`` if ``enter`` would."""
        with self._lock:
            is_admitted = self._probe_at_s is None or self._monotonic() >= self._probe_at_s
            if self._is_probing or not is_admitted:
                raise CircuitOpenError(self._reason)

    def enter(self) -> bool:
        """Admit a request.

        Returns:
            True if the request is a probe. The result of a probe must be recorded, or the probe
            abandoned.

        Raises:
            CircuitOpenError: The breaker is open; the message says why.
        """
        with self._lock:
            self.check()
            self._is_probing = self._probe_at_s is not None
            return self._is_probing

    def record_success(self) -> None:
        """Close the breaker: the endpoint answers."""
        with self._lock:
            self._failures, self._probe_at_s, self._is_probing = 0, None, False

    def record_failure(self, reason: str, *, was_probe: bool = False) -> None:
        """Count a failed call; open at the limit, or immediately if the call was a probe."""
        with self._lock:
            if self._probe_at_s is not None and not was_probe:
                return  # the call was sent before the breaker opened
            self._failures += 1
            if self._failures >= self._max_failures:
                in_a_row = f"{self._failures} calls in a row failed"
                self.open(f"the judge endpoint is down: {in_a_row}, the last one: {reason}")

    def open(self, reason: str) -> None:
        """Open immediately: the next calls would fail in the same way."""
        with self._lock:
            self._reason, self._is_probing = reason, False
            self._failures = max(self._failures, self._max_failures)
            self._probe_at_s = self._monotonic() + self._pause_s

    def abandon_probe(self) -> None:
        """End a probe that was canceled before it had a result; another one may follow."""
        self._is_probing = False
