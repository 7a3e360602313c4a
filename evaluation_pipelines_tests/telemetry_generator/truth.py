"""What really happened: the generator's own account of every session, kept while it is told.

It knows nothing of the pipeline, so that the pipeline's result can be held against it. The rules
of windows are those of the documents: each time a masque is put on opens one.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from evaluation_pipelines_tests.telemetry_generator.team import Login

IDLE_MS = 30 * 60 * 1000
"""A pause counts as active up to this long."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class WindowTruth:
    """One session window; it counts up while the session is told.

    Attributes:
        masque: Masque worn; None for a baseline.
        started_ms: When it began (milliseconds since 1970); -1 until it has an event.
        last_ms: Its last event so far.
        ended_ms: When it ended.
        active_ms: Time between its events, each pause counted up to 30 minutes.
        explicit_end: The masque was taken off.
        attribution: baseline, clean, mixed or remainder.
        session_key: Its key in the tables.
        prompts: Prompts to the model.
        tools_ok: Tool calls that succeeded.
        tools_failed: Tool calls that failed.
        tools_denied: Tool calls that were refused.
        tools_unknown: Tool calls of which nothing more was heard.
        api_requests: Requests that were answered.
        api_errors: Requests that failed.
        ends_in_error: Whether its last request failed.
        input_tokens: Uncached input tokens of those requests.
        cache_read_tokens: Input tokens read from the cache.
        cache_creation_tokens: Input tokens written to the cache.
        cost_nano: Price of its requests in nano-dollars.
        missing_events: Records that got lost on the way.
        output_tokens_by_model: Output tokens of each model that answered.
    """

    masque: str | None
    started_ms: int = -1
    last_ms: int = -1
    ended_ms: int = -1
    active_ms: int = 0
    explicit_end: bool = False
    attribution: str = ""
    session_key: str = ""
    prompts: int = 0
    tools_ok: int = 0
    tools_failed: int = 0
    tools_denied: int = 0
    tools_unknown: int = 0
    api_requests: int = 0
    api_errors: int = 0
    ends_in_error: bool = False
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_nano: int = 0
    missing_events: int = 0
    output_tokens_by_model: Counter[str] = field(default_factory=Counter)

    @property
    def output_tokens(self) -> int:
        """Output tokens of all models."""
        return self.output_tokens_by_model.total()

    @property
    def cost_usd(self) -> float:
        """Price of its requests."""
        return self.cost_nano / 1e9

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return _EPOCH + timedelta(milliseconds=self.started_ms)

    @property
    def ended_at(self) -> datetime:
        """When it ended."""
        return _EPOCH + timedelta(milliseconds=self.ended_ms)

    @property
    def status(self) -> str:
        """``failed``, ``cancelled`` or ``completed``."""
        if self.ends_in_error:
            return "failed"
        answers = self.api_requests + self.tools_ok + self.tools_failed
        return "completed" if answers else "cancelled"

    @property
    def holds_work(self) -> bool:
        """Whether there is a prompt or a tool call in it."""
        calls = self.tools_ok + self.tools_failed + self.tools_denied + self.tools_unknown
        return self.prompts + calls > 0


@dataclass(frozen=True, slots=True)
class SessionTruth:
    """One session and its windows in the order they began."""

    session_id: str
    organization_id: str
    team_id: str
    person: str
    login: Login
    places: dict[str, str]
    label: str | None
    session_date: date
    windows: tuple[WindowTruth, ...]


@dataclass(slots=True)
class Delivery:
    """What was written, in numbers.

    Attributes:
        bytes: Bytes of all files.
        lines: Lines of all files that are not empty, attribution lines included.
        records: Log records of sessions, each once.
        resent_records: Records that were sent a second time.
        broken: Lines, or single records of a line, that cannot be read.
        metrics: Lines of metrics.
        traces: Lines of traces.
        attribution_lines: Lines that tell who wore which masque.
        dons_and_doffs: Times of putting on and taking off in them.
    """

    bytes: int = 0
    lines: int = 0
    records: int = 0
    resent_records: int = 0
    broken: int = 0
    metrics: int = 0
    traces: int = 0
    attribution_lines: int = 0
    dons_and_doffs: int = 0


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that happened and everything that was written."""

    sessions: tuple[SessionTruth, ...]
    delivery: Delivery

    def windows(self) -> dict[tuple[str, str], WindowTruth]:
        """(organization id, session key) -> window."""
        return {
            (session.organization_id, window.session_key): window
            for session in self.sessions
            for window in session.windows
        }


@dataclass(slots=True)
class Account:
    """Keeps the windows of one session."""

    window: WindowTruth = field(default_factory=lambda: WindowTruth(None))
    _closed: list[WindowTruth] = field(default_factory=list)
    _until_doff: tuple[WindowTruth, int] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anything was told yet."""
        return bool(self._closed) or self.window.last_ms >= 0

    def happen(self, time_ms: int) -> None:
        """An event was told."""
        window = self.window
        if self._until_doff:
            undressed, pause_ms = self._until_doff
            undressed.active_ms += pause_ms
            self._until_doff = None
        if window.last_ms < 0:
            window.started_ms = time_ms
        else:
            window.active_ms += min(time_ms - window.last_ms, IDLE_MS)
        window.last_ms = time_ms

    def put_on(self, masque: str, time_ms: int) -> None:
        """A masque is worn from now on; before the first event it is worn from that event on."""
        has_begun = self.has_begun
        self._close()
        self.window = WindowTruth(masque)
        if has_begun:
            self.window.started_ms = self.window.last_ms = time_ms

    def take_off(self, time_ms: int) -> None:
        """The masque is taken off: the time before counts if anything is told after it."""
        window = self.window
        self._until_doff = window, min(time_ms - window.last_ms, IDLE_MS)
        window.last_ms, window.explicit_end = time_ms, True
        self._close()
        self.window = WindowTruth(None)

    def change_to(self, masque: str | None) -> None:
        """Records name another masque from the next event on."""
        if masque != self.window.masque:
            self._close()
            self.window = WindowTruth(masque)

    def finish(self, session_id: str) -> tuple[WindowTruth, ...]:
        """The windows of the whole session."""
        self._close()
        masques = {window.masque for window in self._closed} - {None}
        numbers: Counter[str] = Counter()
        for window in self._closed:
            name = (window.masque or "baseline").lower()
            numbers[name] += 1
            window.session_key = f"{session_id}#{name}-{numbers[name]}"
            if window.masque is None:
                window.attribution = "remainder" if masques else "baseline"
            else:
                window.attribution = "mixed" if len(masques) > 1 else "clean"
        return tuple(self._closed)

    def _close(self) -> None:
        """End the window; a baseline without work next to masques belongs to the one after it."""
        window = self.window
        window.ended_ms = window.last_ms
        if window.last_ms >= 0 and (window.masque is not None or window.holds_work):
            self._closed.append(window)
