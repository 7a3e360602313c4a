"""Sending evaluations to their receivers: in batches, tried again later, resumed after a kill.

A receiver's position is stored after it has accepted a batch. After a kill in between, it gets the
batch again with the same ids, by which it can drop repeats.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.evaluations.outbox import Change, Outbox, events_of, note_changes
from evaluation_pipelines.evaluations.post import NotDeliveredError
from evaluation_pipelines.evaluations.receivers import Receiver, receivers
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.evaluations import (
    EVALUATION_RECEIVERS,
    EVALUATION_REFUSALS,
)
from evaluation_pipelines.storage.lock import Hold, held
from evaluation_pipelines.storage.stores import Stores

SEND = "send evaluations"
"""Lock of the process that sends."""

SESSIONS_AT_ONCE = 50
"""Sessions of a request: each has about 15 evaluations."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5, 3600
_CONTENT = frozenset((400, 413, 422))
"""Status codes about the content of a request. Other errors are about the receiver."""

_ENDED = 410
_RECEIVER, _REFUSAL = EVALUATION_RECEIVERS.c, EVALUATION_REFUSALS.c
_KEY = ("organization_id", "session_key")


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """A row of ``evaluation_receivers``."""

    name: str
    address_hash: str
    position: int = 0
    failures: int = 0
    failing_since: datetime | None = None
    next_try_at: datetime | None = None
    last_error: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row of ``evaluation_refusals``: evaluations of a session that a receiver refused."""

    receiver: str
    organization_id: str
    session_key: str
    session_date: Any
    after: int
    reason: str
    refused_at: datetime


@dataclass(frozen=True, slots=True)
class Sent:
    """Result of a run for a receiver: accepted and refused sessions, and why it stopped early."""

    receiver: str
    sessions: int
    refused: int
    problem: str | None


class Deliveries:
    """Operations on receivers and refusals, each in one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def state(self, receiver: Receiver) -> ReceiverState:
        """Return the state of a receiver. At another address it is new."""
        new = ReceiverState(receiver.name, sha256(receiver.address.encode()).hexdigest())
        (known,) = [each for each in self.states() if each.name == receiver.name] or [new]
        return known if known.address_hash == new.address_hash else new

    def states(self) -> list[ReceiverState]:
        """Return the states of all receivers, also of former ones."""
        query = sa.select(EVALUATION_RECEIVERS).order_by(_RECEIVER.name)
        with reading(self._engine) as connection:
            return [ReceiverState(**row) for row in connection.execute(query).mappings()]

    def refusals(self) -> list[Refusal]:
        """Return all refusals that remain."""
        query = sa.select(EVALUATION_REFUSALS).order_by(_REFUSAL.receiver, _REFUSAL.after)
        with reading(self._engine) as connection:
            return [Refusal(**row) for row in connection.execute(query).mappings()]

    def put(self, hold: Hold, state: ReceiverState, refused: Sequence[Refusal] = ()) -> None:
        """Store the state of a receiver, with new refusals."""
        with writing(self._engine) as connection:
            hold.check(connection)
            row = asdict(state)
            insert = insert_into(connection, EVALUATION_RECEIVERS).values(row)
            connection.execute(
                insert.on_conflict_do_update(index_elements=[_RECEIVER.name], set_=row)
            )
            for each in refused:
                row = asdict(each)
                insert = insert_into(connection, EVALUATION_REFUSALS).values(row)
                # The oldest position stays: nothing was accepted since.
                again = {"reason": each.reason, "refused_at": each.refused_at}
                key = [_REFUSAL.receiver, _REFUSAL.organization_id, _REFUSAL.session_key]
                connection.execute(insert.on_conflict_do_update(index_elements=key, set_=again))

    def accepted(self, refusal: Refusal) -> None:
        """Delete a refusal after its acceptance."""
        is_it = (_REFUSAL[name] == getattr(refusal, name) for name in ("receiver", *_KEY))
        with writing(self._engine) as connection:
            connection.execute(sa.delete(EVALUATION_REFUSALS).where(*is_it))


def send_evaluations(
    stores: Stores, clock: Callable[[], datetime], *, at_once: bool = False
) -> list[Sent]:
    """Note changed evaluations, and send each receiver the ones it lacks.

    A receiver that fails is tried again after growing pauses of up to an hour.

    Args:
        stores: The stores.
        clock: Returns the time.
        at_once: Whether to try receivers whose pause is not over.

    Raises:
        LockTimeoutError: Another process sends.
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    found = [*receivers(stores.settings)]
    if not found:
        return []
    with held(stores.ledger, SEND) as hold:
        note_changes(stores, clock(), timeout_s=stores.settings.lock_timeout_seconds)
        return [_Sending(stores, each, hold, clock).run(at_once=at_once) for each in found]


def retry_refused(stores: Stores, clock: Callable[[], datetime]) -> tuple[int, int]:
    """Send refused sessions one by one. Return how many were accepted, and refused again.

    Raises as :func:`send_evaluations`.
    """
    deliveries = Deliveries(stores.ledger)
    by_name = {each.name: each for each in receivers(stores.settings)}
    accepted = refused = 0
    with held(stores.ledger, SEND) as hold:
        for each in deliveries.refusals():
            key = (each.organization_id, each.session_key)
            changes = Outbox(stores.ledger).of_sessions([key])
            if each.receiver not in by_name:
                refused += 1
                continue
            sending = _Sending(stores, by_name[each.receiver], hold, clock)
            if sending.again(changes, each):
                accepted += 1
            else:
                refused += 1
    return accepted, refused


def is_due(stores: Stores, now: datetime) -> bool:
    """Return whether a receiver may be tried now. Raises LedgerError."""
    states = map(Deliveries(stores.ledger).state, receivers(stores.settings))
    return any(_may_try(each, now) for each in states)


def _may_try(state: ReceiverState, now: datetime) -> bool:
    return state.ended_at is None and (state.next_try_at is None or state.next_try_at <= now)


@dataclass(slots=True)
class _Sending:
    """One run for one receiver."""

    stores: Stores
    receiver: Receiver
    hold: Hold
    clock: Callable[[], datetime]

    def run(self, *, at_once: bool) -> Sent:
        deliveries, outbox = Deliveries(self.stores.ledger), Outbox(self.stores.ledger)
        state = deliveries.state(self.receiver)
        sessions = refused = 0
        if state.ended_at is not None or not (at_once or _may_try(state, self.clock())):
            return Sent(self.receiver.name, 0, 0, state.last_error)
        name = self.receiver.name
        while changes := outbox.after(state.position, SESSIONS_AT_ONCE, self.receiver.organization):
            try:
                found = self._hand_over(changes, state.position)
            except NotDeliveredError as error:
                state = self._failed(state, error)
                deliveries.put(self.hold, state)
                return Sent(name, sessions, refused, state.last_error)
            state = ReceiverState(name, state.address_hash, changes[-1].position)
            deliveries.put(self.hold, state, found)
            sessions, refused = sessions + len(changes) - len(found), refused + len(found)
        return Sent(name, sessions, refused, None)

    def again(self, changes: Sequence[Change], refusal: Refusal) -> bool:
        """Send the refused evaluations of a session, and return whether they were accepted."""
        deliveries = Deliveries(self.stores.ledger)
        found = self._hand_over(changes, refusal.after) if changes else []
        if found:
            deliveries.put(self.hold, deliveries.state(self.receiver), found)
        else:
            deliveries.accepted(refusal)
        return not found

    def _hand_over(self, changes: Sequence[Change], after: int) -> list[Refusal]:
        """Send the changes after a position, and return the refused sessions.

        A refused request is divided until it is about one session. After a partial success OTLP
        forbids to send a request again, and its answer names no record: all its sessions count as
        refused, and a retry sends each alone.

        Raises:
            NotDeliveredError: The receiver failed: the same is to be sent again.
        """
        events = events_of(self.stores, changes, after)
        if events.is_empty():
            return []
        now = self.clock()
        try:
            rejected = self.receiver.send(events, now)
        except NotDeliveredError as error:
            if error.status not in _CONTENT:
                raise
            if len(changes) > 1:
                middle = len(changes) // 2
                return [
                    *self._hand_over(changes[:middle], after),
                    *self._hand_over(changes[middle:], after),
                ]
            reason = str(error)
        else:
            if rejected is None:
                return []
            reason = f"{rejected.records} of {events.height} records rejected: {rejected.reason}"
        return [
            Refusal(self.receiver.name, *each.key, each.session_date, after, reason, now)
            for each in changes
        ]

    def _failed(self, state: ReceiverState, error: NotDeliveredError) -> ReceiverState:
        now, failures = self.clock(), state.failures + 1
        pause_s = min(_FIRST_PAUSE_S * 2 ** min(state.failures, 20), _LONGEST_PAUSE_S)
        pause_s = max(pause_s, min(error.retry_after_s, _LONGEST_PAUSE_S))
        return ReceiverState(
            state.name,
            state.address_hash,
            state.position,
            failures,
            state.failing_since or now,
            now + timedelta(seconds=pause_s),
            str(error),
            now if error.status == _ENDED else None,
        )
