"""A circuit breaker: stops asking an endpoint that is down, and finds out when it is up again."""

from collections.abc import Callable


class CircuitOpenError(Exception):
    """The endpoint is down or refuses everything: no session is to blame, all stay due.

    ``cost_usd`` is what the request cost that found it out: 0, or None for unknown.
    """

    def __init__(self, reason: str, cost_usd: float | None = 0.0) -> None:
        super().__init__(reason)
        self.cost_usd = cost_usd


class CircuitBreaker:
    """Opens after some failures in a row; from then on one probe at a time is let through.

    A probe follows a pause after the last failure. When it succeeds all is well again.
    """

    def __init__(self, failures: int, pause_s: float, monotonic: Callable[[], float]) -> None:
        """Begin closed: everything is let through."""
        self._most_failures = failures
        self._pause_s = pause_s
        self._monotonic = monotonic
        self._failures = 0
        self._probe_at_s: float | None = None
        self._probing = False
        self._reason = ""

    def check(self) -> None:
        """Raise CircuitOpenError where ``enter`` would."""
        due = self._probe_at_s is None or self._monotonic() >= self._probe_at_s
        if self._probing or not due:
            raise CircuitOpenError(self._reason)

    def enter(self) -> bool:
        """Let a request through; whether it is a probe, which must report or be abandoned.

        Raises:
            CircuitOpenError: with the reason for which it opened.
        """
        self.check()
        self._probing = self._probe_at_s is not None
        return self._probing

    def succeeded(self) -> None:
        """Close: the endpoint answers."""
        self._failures, self._probe_at_s, self._probing = 0, None, False

    def failed(self, reason: str, *, was_probe: bool = False) -> None:
        """Count a call that failed; opens at the limit, and at once when it was a probe."""
        if self._probe_at_s is not None and not was_probe:
            return  # it set out before the breaker opened and tells nothing new
        self._failures += 1
        if self._failures >= self._most_failures:
            in_a_row = f"{self._failures} calls in a row failed"
            self.open(f"the judge endpoint is down: {in_a_row}, the last one: {reason}")

    def open(self, reason: str) -> None:
        """Open at once: the next calls would fail just so."""
        self._reason, self._probing = reason, False
        self._failures = max(self._failures, self._most_failures)
        self._probe_at_s = self._monotonic() + self._pause_s

    def abandon_probe(self) -> None:
        """The probe was given up before it could tell anything; another one may follow."""
        self._probing = False
