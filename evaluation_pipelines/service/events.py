"""Events for listeners: the channels they choose, and one poller of the ledger for all of them."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.attention.alert_store import visible_alerts
from evaluation_pipelines.attention.domain.messages import Alert, names_person
from evaluation_pipelines.scorecards.domain.evaluation import MODEL_FEEDBACK, QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey, without_scores
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent, ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS

CHANNELS = "sessions, session:<session id or key>, evaluations and alerts"

_EVENT = SERVICE_EVENTS.c
_ALL_SESSIONS = ("scoring.started", "scoring.completed", "scoring.failed")
_ONE_SESSION = (*_ALL_SESSIONS, "scoring.progress", "scoring.deferred")
_EVALUATIONS = (MODEL_FEEDBACK, QUALITY_RISK)
_ALERTS = ("alert.raised", "alert.ended")
_NAME_CHARACTERS = 1024
_ALWAYS = ("event_id", "type", "timestamp_us")
_SUBJECT = ("score_id", "session_id", "session_key", "organization_id")
_WHERE_THEY_APPLY = ("phase", "total_score", "error_message")


class UnknownChannelError(ValueError):
    """No channel has this name."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The events that one listener gets.

    Attributes:
        types: Types of events.
        session: Session id or key; ``None`` for all sessions.
        organization: The only organization; ``None`` for all. Alerts have no organization.
        hides_people: Whether alerts that name a person are left out.
    """

    types: tuple[str, ...]
    session: str | None
    organization: str | None
    hides_people: bool = False

    def includes(self, event: ServiceEvent) -> bool:
        """Return True if the listener gets ``event``."""
        return (
            event.type in self.types
            and self.session in {None, event.session_id, event.session_key}
            and self.organization in {None, event.organization_id}
        )

    @property
    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """The same as conditions on ``service_events``."""
        found: list[sa.ColumnElement[bool]] = [_EVENT.type.in_(self.types)]
        if self.session is not None:
            found.append(
                sa.or_(_EVENT.session_id == self.session, _EVENT.session_key == self.session)
            )
        if self.organization is not None:
            found.append(_EVENT.organization_id == self.organization)
        return found


def parse_channel(name: str, organization: str | None) -> Channel:
    """Return the channel ``name`` for a listener of ``organization``.

    Raises:
        UnknownChannelError: No channel has this name.
    """
    kind, separator, session = name.partition(":")
    if "\0" in name or len(name) > _NAME_CHARACTERS:  # no session has such a name
        kind = ""
    match kind:
        case "sessions" if not separator:
            return Channel(_ALL_SESSIONS, None, organization)
        case "session" if session:
            return Channel(_ONE_SESSION, session, organization)
        case "evaluations" if not separator:
            return Channel(_EVALUATIONS, None, organization)
        case "alerts" if not separator:
            return Channel(_ALERTS, None, organization)
    raise UnknownChannelError(f"There is no such channel. There are {CHANNELS}.")


def is_withheld(event: ServiceEvent, waiting: Collection[SessionKey]) -> bool:
    """Return True if an event has the score of a session that waits for a blind review."""
    if event.type in _ALERTS:
        return bool(waiting)
    is_scored = event.total_score is not None or event.type in _EVALUATIONS
    return is_scored and (event.organization_id, event.session_key) in waiting


def _names_person(event: ServiceEvent) -> bool:
    if event.type not in _ALERTS or event.payload is None:
        return False
    payload = json.loads(event.payload)
    return names_person(payload["kind"], payload["cause"])


def event_text(event: ServiceEvent) -> str:
    """Return an event as JSON for its listeners."""
    return json.dumps(_fields(event))


def visible_text(
    ledger: Ledger, event: ServiceEvent, waiting: Collection[SessionKey]
) -> str | None:
    """Return an event as JSON without the scores of the sessions that wait.

    ``None`` if the event itself is about their low scores.
    """
    if not is_withheld(event, waiting):
        return event_text(event)
    fields = _fields(event)
    if event.type == QUALITY_RISK:
        return None
    if event.type in _ALERTS:
        (shown,) = visible_alerts(ledger, [Alert(**fields["payload"])], waiting)
        return None if shown is None else json.dumps({**fields, "payload": asdict(shown)})
    return json.dumps({**without_scores(fields), WAITS: True})


def _fields(event: ServiceEvent) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(event, name) for name in _ALWAYS}
    for name in (*_SUBJECT, *_WHERE_THEY_APPLY):
        if (value := getattr(event, name)) is not None:
            fields[name] = value
    if event.payload is not None:
        fields["payload"] = json.loads(event.payload)
    return fields


def missed_text(oldest_id: int) -> str:
    """Return the message to a listener whose last event is older than all that are kept."""
    return json.dumps({"type": "events.missed", "oldest_event_id": oldest_id})


LOG = logging.getLogger("evaluation_pipelines.service.events")

_POLL_S = 0.5
_DELIVERY_S, _DELIVERY_STEPS = 2.0, 20
_PAGE = 1000
_MOST_RECENT = 1000
"""Events in memory, for all listeners; one that is slower reads on from the ledger."""


Waiting: TypeAlias = Callable[[], Collection[SessionKey]]
"""Returns the sessions that wait for a blind review."""


@dataclass(frozen=True, slots=True)
class _Message:
    """An event, its text, and whether some listeners may not see the scores in it."""

    event: ServiceEvent
    text: str
    may_be_withheld: bool

    async def shown(self, ledger: Ledger, channel: Channel, waiting: Waiting) -> str | None:
        """Return the text for a listener, without what is withheld from it; ``None`` if all."""
        if channel.hides_people and _names_person(self.event):
            return None
        if not self.may_be_withheld:  # the usual case: the same text for all
            return self.text
        return await asyncio.to_thread(lambda: visible_text(ledger, self.event, waiting()))


@dataclass(slots=True, eq=False)
class _Listener:
    """A listener, and the id of the last event it has passed."""

    position: int


class EventHub:
    """Events of all processes for the listeners of this one; use ``running`` in an event loop."""

    def __init__(
        self, ledger: Ledger, poll_seconds: float = _POLL_S, waiting: Waiting = frozenset
    ) -> None:
        self._ledger, self._events = ledger, ServiceEvents(ledger)
        self._waiting = waiting
        self._poll_seconds = poll_seconds
        self._position = self._recent_after = 0
        self._recent = deque[_Message]()
        self._listeners: list[_Listener] = []
        self._is_started = asyncio.Event()
        self._news = asyncio.Condition()

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return len(self._listeners)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Poll the ledger meanwhile."""
        polling = asyncio.create_task(self._poll_forever())
        try:
            yield
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    async def deliver(self) -> None:
        """Wait until the listeners have the events of the ledger, at most ``_DELIVERY_S``."""
        newest = await asyncio.to_thread(self._events.newest_id)
        for _ in range(_DELIVERY_STEPS):
            await asyncio.sleep(_DELIVERY_S / _DELIVERY_STEPS)
            if all(listener.position >= newest for listener in self._listeners):
                return

    async def messages(
        self, channel: Channel, after: int | None, waiting: Waiting = frozenset
    ) -> AsyncGenerator[str, None]:
        """Yield the events of a channel as JSON: those after the event ``after``, then new ones.

        ``None`` begins with new events. Ids are in the order of commits, so that nothing is missing
        between what is read from the ledger and what the poller brings. Scores of the sessions
        ``waiting`` are withheld.
        """
        await self._is_started.wait()
        listener = _Listener(self._position if after is None else after)
        self._listeners.append(listener)
        try:
            if after is not None and (oldest := await self._first_kept(after)) is not None:
                yield missed_text(oldest)
            while True:
                async with self._news:
                    await self._news.wait_for(lambda: self._position > listener.position)
                messages, until = await self._after(listener.position, channel)
                for message in messages:
                    listener.position = message.event.event_id
                    if (text := await message.shown(self._ledger, channel, waiting)) is not None:
                        yield text
                listener.position = until
        finally:
            self._listeners.remove(listener)

    async def _first_kept(self, after: int) -> int | None:
        """Return the id of the oldest event if older ones after ``after`` are deleted."""
        oldest = await asyncio.to_thread(self._events.oldest_id)
        if oldest is None:
            return None
        is_missing = await asyncio.to_thread(self._events.is_missing_any, after, oldest)
        return oldest if is_missing else None

    async def _after(self, position: int, channel: Channel) -> tuple[Sequence[_Message], int]:
        """Return the next messages of a channel, and the event up to which these are all."""
        until = self._position
        if position >= self._recent_after:
            recent = (message for message in self._recent if message.event.event_id > position)
            return [message for message in recent if channel.includes(message.event)], until
        read = partial(self._events.after, position, *channel.conditions, limit=_PAGE, until=until)
        page = await asyncio.to_thread(read)
        return await self._messages(page), until if len(page) < _PAGE else page[-1].event_id

    async def _messages(self, page: Sequence[ServiceEvent]) -> list[_Message]:
        """Return the messages of events; who may see which scores is read once for all."""
        waiting = await asyncio.to_thread(self._waiting) if page else ()
        return [_Message(event, event_text(event), is_withheld(event, waiting)) for event in page]

    async def _poll_forever(self) -> None:
        is_failing = False
        while True:
            try:
                await self._poll()
                is_failing = False
            except Exception:
                if not is_failing:
                    LOG.exception("events cannot be read. They are read as soon as it works again")
                is_failing = True
            await asyncio.sleep(self._poll_seconds)

    async def _poll(self) -> None:
        if not self._is_started.is_set():
            self._position = self._recent_after = await asyncio.to_thread(self._events.newest_id)
            self._is_started.set()
        while True:
            read = partial(self._events.after, self._position, limit=_PAGE)
            page = await asyncio.to_thread(read)
            messages = await self._messages(page)
            # No await in between: all events up to the position are in memory, and none beyond it.
            self._recent.extend(messages)
            while len(self._recent) > _MOST_RECENT:
                self._recent_after = self._recent.popleft().event.event_id
            self._position = page[-1].event_id if page else self._position
            async with self._news:
                self._news.notify_all()
            if len(page) < _PAGE:
                return
