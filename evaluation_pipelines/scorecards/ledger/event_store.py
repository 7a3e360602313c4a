"""Store of events about effective scores, each recorded once, for other systems to read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice

import sqlalchemy as sa

from evaluation_pipelines.schemas.announcement import MAX_SHOWN, Announced, Announcement
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.scorecards import EVALUATION_EVENTS

_EVENT = EVALUATION_EVENTS.c
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
    """Operations on ``evaluation_events``."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def record(self, day: date, announcements: Iterable[Announcement], now: datetime) -> Announced:
        """Record the events of a date, many in a transaction; an event that is known is skipped.

        Returns:
            The events that were not recorded before.
        """
        known = sa.select(_EVENT.event_id).where(_EVENT.session_date == day)
        with reading(self._engine) as connection:
            seen = set(connection.scalars(known))
        new = (each for each in announcements if each.event_id not in seen)
        shown: list[Announcement] = []
        counts: Counter[str] = Counter()
        while some := list(islice(new, _EVENTS_PER_TRANSACTION)):
            self._insert(some, now)
            counts.update(each.kind for each in some)
            shown += some[: MAX_SHOWN - len(shown)]
        return Announced(tuple(shown), counts)

    def _insert(self, announcements: Iterable[Announcement], now: datetime) -> None:
        rows = [
            {
                "event_id": each.event_id,
                "kind": each.kind,
                "session_date": each.session_date,
                "organization_id": each.organization_id,
                "session_key": each.session_key,
                "payload": each.payload,
                "recorded_at": now,
            }
            for each in announcements
        ]
        with writing(self._engine) as connection:
            # Another run may have recorded them since the query: the second insert adds nothing.
            insert = insert_into(connection, EVALUATION_EVENTS)
            connection.execute(
                insert.on_conflict_do_nothing(index_elements=[_EVENT.event_id]), rows
            )

    def of_kind(self, kind: str, position: int, first_day: date) -> list[EvaluationEvent]:
        """Return the events of a kind after ``position``, oldest first.

        Only those of sessions with a date of ``first_day`` or later.
        """
        query = sa.select(EVALUATION_EVENTS).where(
            _EVENT.position > position, _EVENT.kind == kind, _EVENT.session_date >= first_day
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_EVENT.position)).mappings()
            return [EvaluationEvent(**row) for row in rows]

    def after(self, position: int, limit: int) -> list[EvaluationEvent]:
        """Return the next ``limit`` events after ``position``, oldest first."""
        query = sa.select(EVALUATION_EVENTS).where(_EVENT.position > position)
        query = query.order_by(_EVENT.position).limit(limit)
        with reading(self._engine) as connection:
            return [EvaluationEvent(**row) for row in connection.execute(query).mappings()]
