"""Health of an endpoint: its rates, whether it is up, and whether it caused failed calls.

A call that failed makes its session a suspect. A later reply shows that the endpoint works: the
suspects so far have failed, except for rejected ones, since replies to earlier requests arrive when
the endpoint already rejects all new ones. At the end of a run the endpoint is to blame for
equal rejections of several sessions, and, unless a reply came later, for errors of several
sessions and for silence; those sessions stay due.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Literal, TypeAlias

MAX_FAILURES = 5
"""Calls in a row that may fail before the endpoint counts as down and a run stops."""


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


@dataclass(slots=True)
class AdmittedRequest:
    """A request that the limit admitted."""

    at_s: float
    tokens: int


Symptom: TypeAlias = Literal["rejected", "silent", "faulty", "other"]
"""What an endpoint did: refused the request, sent nothing, sent an error, or else."""

SAME_REJECTIONS = 3
"""Sessions of a run with the same rejection after which it stops."""

_ID = re.compile(r"[\w+/=.-]*\d[\w+/=.-]*")
"""A number, or the id of a request."""

_PATTERN_CHARACTERS = 100
"""An answer may end with parts of the request, and it is truncated anywhere."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A judgment whose call failed.

    Attributes:
        score_id: The judgment.
        symptom: What the endpoint did.
        reason: What it said; a sentence for users.
        retriable: Whether another attempt may succeed.
    """

    score_id: str
    symptom: Symptom
    reason: str
    retriable: bool

    @property
    def pattern(self) -> str:
        """What sessions with the same problem have in common.

        Of a rejection its words without numbers and ids; of errors only that they are errors.
        """
        if self.symptom != "rejected":
            return self.symptom
        return _ID.sub("0", self.reason)[:_PATTERN_CHARACTERS]


@dataclass(slots=True)
class Blame:
    """Suspects and useless replies of one run, or of one batch.

    Attributes:
        max_useless: Replies in a row that are empty or cut before the run stops.
    """

    max_useless: int = MAX_FAILURES
    _is_answered: bool = False
    _useless: int = 0
    _last_useless: str = ""
    _suspects: list[Suspect] = field(default_factory=list)
    _guilty: list[Suspect] = field(default_factory=list)

    def note_reply(self, why_useless: str | None) -> None:
        """Note a reply, and why it is unusable; a refusal is usable: it is an answer."""
        self._is_answered = True
        self._guilty += [suspect for suspect in self._suspects if suspect.symptom != "rejected"]
        self._suspects = [suspect for suspect in self._suspects if suspect.symptom == "rejected"]
        self._useless = 0 if why_useless is None else self._useless + 1
        self._last_useless = why_useless or ""

    def add(self, suspect: Suspect) -> None:
        """Note a failed call."""
        self._suspects.append(suspect)

    def take_guilty(self) -> list[Suspect]:
        """Return the sessions that have failed since the last call of this method."""
        guilty, self._guilty = self._guilty, []
        return guilty

    def stop_reason(self) -> str | None:
        """Return why the run should stop because of its endpoint; ``None`` if it should not."""
        if self._useless >= self.max_useless:
            return f"{self._useless} replies in a row were unusable, the last one: " + (
                self._last_useless
            )
        alike = self._sessions_by_pattern()
        for suspect in reversed(self._suspects):
            if suspect.symptom == "rejected" and alike[suspect.pattern] >= SAME_REJECTIONS:
                return f"{suspect.reason}. {SAME_REJECTIONS} sessions got the same answer"
        return None

    def settle(self, *, is_endpoint_down: bool) -> tuple[list[Suspect], list[Suspect]]:
        """End the run; return the sessions that have failed, and those that stay due."""
        alike = self._sessions_by_pattern()
        suspects, self._suspects = self._suspects, []
        failed: list[Suspect] = []
        due: list[Suspect] = []
        for suspect in suspects:
            is_silence = suspect.symptom == "silent" and not self._is_answered
            is_alike = suspect.symptom != "other" and alike[suspect.pattern] > 1
            is_due = suspect.symptom != "other" and is_endpoint_down
            (due if is_silence or is_alike or is_due else failed).append(suspect)
        return failed, due

    def _sessions_by_pattern(self) -> Counter[str]:
        return Counter(pattern for pattern, _ in {(s.pattern, s.score_id) for s in self._suspects})
