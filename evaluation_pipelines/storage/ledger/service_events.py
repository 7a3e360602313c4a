"""Events that other programs follow, by ids in the order of commits, without gaps.

A sequence of a database gives ids in the order of inserts, and uses those of transactions that are
rolled back. A slow transaction would then commit an id that is smaller than one that a reader has
seen already, and the reader would miss it; and a gap could not be told from deleted events. So an
event gets the id after the newest one, under a lock that is held until the transaction ends.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import (
    chunks,
    lock_for_events,
    reading,
    writing,
)
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.times import to_us

_EVENT = SERVICE_EVENTS.c


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """One event; fields that do not apply to its type are ``None``. ``payload`` is JSON text."""

    event_id: int
    type: str
    timestamp_us: int
    organization_id: str | None
    session_id: str | None
    session_key: str | None
    session_date: date | None
    score_id: str | None
    phase: str | None
    total_score: int | None
    error_message: str | None
    unique_id: str | None
    payload: str | None

    @property
    def detail(self) -> str | None:
        """The phase of a scoring, its total or its error."""
        if self.total_score is not None:
            return f"{self.total_score} of 100"
        return self.phase or self.error_message


def append_events(connection: sa.Connection, events: Collection[Mapping[str, Any]]) -> None:
    """Insert events; one whose ``unique_id`` is known is skipped.

    Call it last in a transaction: a row locked after it could deadlock.

    Args:
        connection: A write transaction.
        events: Columns of ``service_events`` without ``event_id``, the same in each.
    """
    if not events:
        return
    lock_for_events(connection)
    if new := _unknown(connection, events):
        # The newest event is never deleted.
        newest = connection.scalar(sa.select(sa.func.max(_EVENT.event_id))) or 0
        rows = [{**event, "event_id": number} for number, event in enumerate(new, newest + 1)]
        connection.execute(sa.insert(SERVICE_EVENTS), rows)


def _unknown(
    connection: sa.Connection, events: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the events whose ``unique_id`` is not stored, each once, and those without one."""
    named = {event.get("unique_id"): event for event in events}
    without = [event for event in events if event.get("unique_id") is None]
    named.pop(None, None)
    for ids in chunks(list(named)):
        query = sa.select(_EVENT.unique_id).where(_EVENT.unique_id.in_(ids))
        for known in connection.scalars(query):
            del named[known]
    return [*without, *named.values()]


class ServiceEvents:
    """Reader of ``service_events``."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def newest_id(self) -> int:
        """Return the id of the newest event; 0 if there is none."""
        with reading(self._engine) as connection:
            return connection.scalar(sa.select(sa.func.max(_EVENT.event_id))) or 0

    def oldest_id(self) -> int | None:
        """Return the id of the oldest event of a kind that ``sweep`` deletes; ``None`` without."""
        query = sa.select(_EVENT.event_id).where(_EVENT.unique_id.is_(None))
        with reading(self._engine) as connection:
            return connection.scalar(query.order_by(_EVENT.event_id).limit(1))

    def is_missing_any(self, after: int, until: int) -> bool:
        """Return True if events between two ids are deleted."""
        between = sa.and_(_EVENT.event_id > after, _EVENT.event_id < until)
        with reading(self._engine) as connection:
            kept = connection.scalar(sa.select(sa.func.count()).where(between)) or 0
        return kept < until - after - 1

    def after(
        self,
        event_id: int,
        *conditions: sa.ColumnElement[bool],
        limit: int | None = None,
        until: int | None = None,
    ) -> list[ServiceEvent]:
        """Return events in order.

        Args:
            event_id: The last event that the caller has seen.
            conditions: On columns of ``service_events``.
            limit: Maximum number; ``None`` for all.
            until: The last event to return; ``None`` for the newest.
        """
        query = sa.select(SERVICE_EVENTS).where(_EVENT.event_id > event_id, *conditions)
        if until is not None:
            query = query.where(_EVENT.event_id <= until)
        return self._select(query.order_by(_EVENT.event_id).limit(limit))

    def newest(self, limit: int, *conditions: sa.ColumnElement[bool]) -> list[ServiceEvent]:
        """Return the newest ``limit`` events that meet ``conditions``, in order."""
        query = sa.select(SERVICE_EVENTS).where(*conditions)
        return self._select(query.order_by(_EVENT.event_id.desc()).limit(limit))[::-1]

    def known_unique_ids(self, session_date: date) -> set[str]:
        """Return the unique ids of the events of a session date."""
        query = sa.select(_EVENT.unique_id).where(
            _EVENT.session_date == session_date, _EVENT.unique_id.is_not(None)
        )
        with reading(self._engine) as connection:
            return set(connection.scalars(query))

    def append(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Insert events in a transaction of their own; see ``append_events``."""
        with writing(self._engine) as connection:
            append_events(connection, list(events))

    def sweep(self, before: datetime) -> int:
        """Delete events of scorings and alerts that are older than ``before``.

        Evaluation events stay, since they tell a rebuild what has been announced. The newest event
        that is too old stays, too: ``oldest_id`` says from where on events are complete.

        Returns:
            The number of deleted events.
        """
        is_old = sa.and_(_EVENT.timestamp_us < to_us(before), _EVENT.unique_id.is_(None))
        with reading(self._engine) as connection:
            last = connection.scalar(sa.select(sa.func.max(_EVENT.event_id)).where(is_old))
        if last is None or last == self.oldest_id():
            return 0
        delete = sa.delete(SERVICE_EVENTS).where(is_old, _EVENT.event_id < last)
        with writing(self._engine) as connection:
            return connection.execute(delete).rowcount

    def _select(self, query: sa.Select[Any]) -> list[ServiceEvent]:
        with reading(self._engine) as connection:
            return [ServiceEvent(**row) for row in connection.execute(query).mappings()]
