"""Store of events about effective scores, each recorded once, for other systems to read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from evaluation_pipelines.schemas.scorecards import MAX_SHOWN, Announced, Announcement
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent, ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.times import to_us

_EVENT = SERVICE_EVENTS.c
_IS_EVALUATION = _EVENT.type.like("evaluation.%")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS_PER_TRANSACTION = 10_000


@dataclass(frozen=True, slots=True)
class EvaluationEvent:
    """A recorded event; ``payload`` is JSON text."""

    position: int
    event_id: str
    kind: str
    session_date: date
    organization_id: str
    session_key: str
    payload: str
    recorded_at: datetime


class EventStore:
    """The evaluation events of ``service_events``."""

    def __init__(self, ledger: Ledger) -> None:
        self._events = ServiceEvents(ledger)

    def record(self, day: date, announcements: Iterable[Announcement], now: datetime) -> Announced:
        """Record the events of a date, many in a transaction; an event that is known is skipped.

        Returns:
            The events that were not recorded before.
        """
        seen = self._events.known_unique_ids(day)
        new = (each for each in announcements if each.event_id not in seen)
        shown: list[Announcement] = []
        counts: Counter[str] = Counter()
        while some := list(islice(new, _EVENTS_PER_TRANSACTION)):
            # Another run may have recorded them since the query: the second adds nothing.
            self._events.append(_row(each, now) for each in some)
            counts.update(each.kind for each in some)
            shown += some[: MAX_SHOWN - len(shown)]
        return Announced(tuple(shown), counts)

    def of_kind(self, kind: str, position: int, first_day: date) -> list[EvaluationEvent]:
        """Return the events of a kind after ``position``, oldest first.

        Only those of sessions with a date of ``first_day`` or later.
        """
        return self._after(position, _EVENT.type == kind, _EVENT.session_date >= first_day)

    def after(self, position: int, limit: int) -> list[EvaluationEvent]:
        """Return the next ``limit`` events after ``position``, oldest first."""
        return self._after(position, _IS_EVALUATION, limit=limit)

    def _after(
        self, position: int, *conditions: sa.ColumnElement[bool], limit: int | None = None
    ) -> list[EvaluationEvent]:
        return list(map(_evaluation_event, self._events.after(position, *conditions, limit=limit)))


def _row(announcement: Announcement, now: datetime) -> dict[str, object]:
    return {
        "type": announcement.kind,
        "timestamp_us": to_us(now),
        "organization_id": announcement.organization_id,
        "session_key": announcement.session_key,
        "session_date": announcement.session_date,
        "unique_id": announcement.event_id,
        "payload": announcement.payload,
    }


def _evaluation_event(event: ServiceEvent) -> EvaluationEvent:
    if (
        event.unique_id is None
        or event.session_date is None
        or event.organization_id is None
        or event.session_key is None
        or event.payload is None
    ):
        raise ValueError(f"event {event.event_id} is no evaluation event")
    return EvaluationEvent(
        position=event.event_id,
        event_id=event.unique_id,
        kind=event.type,
        session_date=event.session_date,
        organization_id=event.organization_id,
        session_key=event.session_key,
        payload=event.payload,
        recorded_at=_EPOCH + timedelta(microseconds=event.timestamp_us),
    )
