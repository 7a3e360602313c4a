"""One poller of the events in the ledger for all listeners."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.service.channels import (
    Channel,
    event_text,
    is_withheld,
    missed_text,
    withheld_text,
)
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent, ServiceEvents

LOG = logging.getLogger("evaluation_pipelines.service.events")

_POLL_S = 0.5
_DELIVERY_S, _DELIVERY_STEPS = 2.0, 20
_PAGE = 1000
_MAX_PENDING = 1000
"""Events that wait in memory for a listener; one that is slower reads on from the ledger."""


Waiting: TypeAlias = Callable[[], Collection[SessionKey]]
"""Returns the sessions that wait for a blind review."""


@dataclass(frozen=True, slots=True)
class _Message:
    """An event, its text, and whether some listeners may not see the scores in it."""

    event: ServiceEvent
    text: str
    may_be_withheld: bool


@dataclass(slots=True)
class _Listener:
    """One listener: the last event it got, and those that wait for it unless it is behind."""

    channel: Channel
    position: int
    is_behind: bool
    waiting: Waiting
    pending: deque[_Message] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, message: _Message) -> None:
        event = message.event
        # A listener may come with an event that this poller has not read yet.
        is_new = event.event_id > self.position
        if is_new and not self.is_behind and self.channel.includes(event):
            self.pending.append(message)
            if len(self.pending) > _MAX_PENDING:
                self.pending.clear()
                self.is_behind = True
            self.wake.set()

    async def text(self, message: _Message) -> str | None:
        """Return the text for this listener, without the scores that are withheld from it."""
        if not message.may_be_withheld:  # the usual case: the same text for all
            return message.text
        waiting = await asyncio.to_thread(self.waiting)
        if is_withheld(message.event, waiting):
            return withheld_text(message.event, waiting)
        return message.text


class EventHub:
    """Events of all processes for the listeners of this one; use ``running`` in an event loop."""

    def __init__(
        self, ledger: Ledger, poll_seconds: float = _POLL_S, waiting: Waiting = frozenset
    ) -> None:
        self._events = ServiceEvents(ledger)
        self._waiting = waiting
        self._poll_seconds = poll_seconds
        self._position = 0
        self._listeners: list[_Listener] = []
        self._is_started = asyncio.Event()

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
            if self._position >= newest and not any(each.pending for each in self._listeners):
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
        is_behind = after is not None
        start = self._position if after is None else after
        listener = _Listener(channel, start, is_behind, waiting)
        self._listeners.append(listener)
        try:
            if after is not None and (oldest := await self._first_kept(after)) is not None:
                yield missed_text(oldest)
            while True:
                async for text in self._read_on(listener):
                    yield text
                while listener.pending:
                    message = listener.pending.popleft()
                    listener.position = message.event.event_id
                    if (shown := await listener.text(message)) is not None:
                        yield shown
                if not listener.is_behind:
                    listener.wake.clear()
                    await listener.wake.wait()
        finally:
            self._listeners.remove(listener)

    async def _first_kept(self, after: int) -> int | None:
        """Return the id of the oldest event if older ones after ``after`` are deleted."""
        oldest = await asyncio.to_thread(self._events.oldest_id)
        if oldest is None:
            return None
        is_missing = await asyncio.to_thread(self._events.is_missing_any, after, oldest)
        return oldest if is_missing else None

    async def _read_on(self, listener: _Listener) -> AsyncIterator[str]:
        """Yield events from the ledger until the listener is where the poller is."""
        while listener.is_behind:
            until = self._position
            read = partial(
                self._events.after,
                listener.position,
                *listener.channel.conditions,
                limit=_PAGE,
                until=until,
            )
            page = await asyncio.to_thread(read)
            for message in await self._messages(page):
                listener.position = message.event.event_id
                if (text := await listener.text(message)) is not None:
                    yield text
            if len(page) < _PAGE:
                listener.position = max(listener.position, until)
                # No await in between: the poller offers the next event only after this.
                listener.is_behind = self._position != until

    async def _messages(self, page: Sequence[ServiceEvent]) -> list[_Message]:
        """Return the messages of events; who may see which scores is read once for all."""
        waiting = await asyncio.to_thread(self._waiting) if page else ()
        return [_Message(each, event_text(each), is_withheld(each, waiting)) for each in page]

    async def _poll_forever(self) -> None:
        is_failing = False
        while True:
            try:
                await self._poll()
                is_failing = False
            except Exception:
                if not is_failing:
                    LOG.exception("events cannot be read; they are read as soon as it works again")
                is_failing = True
            await asyncio.sleep(self._poll_seconds)

    async def _poll(self) -> None:
        if not self._is_started.is_set():
            self._position = await asyncio.to_thread(self._events.newest_id)
            self._is_started.set()
        while True:
            read = partial(self._events.after, self._position, limit=_PAGE)
            page = await asyncio.to_thread(read)
            messages = await self._messages(page if self._listeners else [])
            # No await from here on: whoever begins to listen meanwhile begins before this page.
            for message in messages:
                for listener in self._listeners:
                    listener.offer(message)
            self._position = page[-1].event_id if page else self._position
            if len(page) < _PAGE:
                return
