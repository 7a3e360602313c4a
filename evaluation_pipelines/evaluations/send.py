"""Sending evaluations to their receivers: in batches, tried again later, resumed after a kill.

A receiver's position is stored after it has accepted a batch. After a kill in between, it gets the
batch again with the same ids, so that it can drop duplicates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from evaluation_pipelines.evaluations.deliveries import Deliveries, ReceiverState, Refusal
from evaluation_pipelines.evaluations.outbox import Change, Outbox, events_of, note_changes
from evaluation_pipelines.evaluations.post import NotDeliveredError
from evaluation_pipelines.evaluations.receivers import Receiver, receivers
from evaluation_pipelines.formatting import pluralize
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.blind_reviews import waiting_samples
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


@dataclass(frozen=True, slots=True)
class Sent:
    """Result of a run for a receiver: accepted and refused sessions, and why it stopped early."""

    receiver: str
    sessions: int
    refused: int
    problem: str | None

    def __str__(self) -> str:
        """Return it in words."""
        refused = f", {self.refused:,} refused" if self.refused else ""
        result = f"{self.receiver}: {pluralize(self.sessions, 'session')} accepted{refused}"
        return result if self.problem is None else f"{result}. Not sent: {self.problem}"


def send_evaluations(
    stores: Stores,
    clock: Callable[[], datetime],
    *,
    at_once: bool = False,
    seconds: float = float("inf"),
) -> list[Sent]:
    """Note changed evaluations, and send each receiver the ones it lacks.

    A receiver that fails is tried again after growing pauses of up to an hour.

    Args:
        stores: The stores.
        clock: Returns the time.
        at_once: Whether to try receivers whose pause is not over.
        seconds: Seconds after which to stop, before the next date or request.

    Raises:
        LockTimeoutError: Another process is sending.
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    found, until = [*receivers(stores.settings)], monotonic() + seconds
    if not found:
        return []
    with held(stores.ledger, SEND) as hold:
        note_changes(stores, clock(), seconds, stores.settings.lock_timeout_seconds)
        sending = (_Sending(stores, receiver, hold, clock) for receiver in found)
        return [receiver.run(until, at_once=at_once) for receiver in sending]


def retry_refused(stores: Stores, clock: Callable[[], datetime]) -> tuple[int, int]:
    """Send refused sessions one by one. Return how many were accepted, and how many stay refused.

    One that is gone, or awaits a blind review, is neither. The latter goes out after its answer.

    Raises as :func:`send_evaluations`.
    """
    deliveries = Deliveries(stores.ledger)
    by_name = {receiver.name: receiver for receiver in receivers(stores.settings)}
    accepted = 0
    with held(stores.ledger, SEND) as hold:
        for refusal in deliveries.refusals():
            changes = Outbox(stores.ledger).of_session(refusal.organization_id, refusal.session_key)
            if refusal.receiver in by_name:
                sending = _Sending(stores, by_name[refusal.receiver], hold, clock)
                accepted += sending.again(changes, refusal)
        return accepted, len(deliveries.refusals())


def _may_try(state: ReceiverState, now: datetime) -> bool:
    return state.ended_at is None and (state.next_try_at is None or state.next_try_at <= now)


@dataclass(slots=True)
class _Sending:
    """One run for one receiver."""

    stores: Stores
    receiver: Receiver
    hold: Hold
    clock: Callable[[], datetime]

    def run(self, until: float, *, at_once: bool) -> Sent:
        """Send until nothing is left, or until a ``monotonic()`` deadline."""
        deliveries, outbox = Deliveries(self.stores.ledger), Outbox(self.stores.ledger)
        state = deliveries.state(self.receiver.name, self.receiver.address)
        sessions = refused = 0
        if state.ended_at is not None or not (at_once or _may_try(state, self.clock())):
            return Sent(self.receiver.name, 0, 0, state.last_error)
        name = self.receiver.name
        while changes := outbox.after(state.position, SESSIONS_AT_ONCE, self.receiver.organization):
            try:
                accepted, found = self._hand_over(changes, state.position)
            except NotDeliveredError as error:
                state = self._failed(state, error)
                deliveries.put(self.hold, state)
                return Sent(name, sessions, refused, state.last_error)
            state = ReceiverState(name, state.address_hash, changes[-1].position)
            deliveries.put(self.hold, state, found)
            sessions, refused = sessions + accepted, refused + len(found)
            if monotonic() > until:
                break
        return Sent(name, sessions, refused, None)

    def again(self, changes: Sequence[Change], refusal: Refusal) -> int:
        """Send the refused evaluations of a session. Return the number of accepted sessions."""
        deliveries = Deliveries(self.stores.ledger)
        accepted, found = self._hand_over(changes, refusal.after) if changes else (0, [])
        if found:
            state = deliveries.state(self.receiver.name, self.receiver.address)
            deliveries.put(self.hold, state, found)
        else:
            deliveries.delete(refusal)
        return accepted

    def _hand_over(self, changes: Sequence[Change], after: int) -> tuple[int, list[Refusal]]:
        """Send the changes after a position. Return how many sessions were accepted, and refusals.

        A session that awaits a blind review is neither, and neither is one that has changed since.

        A refused request is halved down to one session. After a partial success OTLP forbids
        resending a request, and its response names no record: all its sessions count as refused,
        and a retry sends each alone.

        Raises:
            NotDeliveredError: The receiver failed: send the same changes again later.
        """
        explained = self.stores.settings.export_texts
        waiting = {sample.key for sample in waiting_samples(self.stores, None)}
        events = events_of(self.stores, changes, after, waiting, explained=explained)
        if events.is_empty():
            return 0, []
        now, keys = self.clock(), set(events.select(SESSION_KEY).iter_rows())
        changes = [change for change in changes if change.key in keys]
        try:
            rejected = self.receiver.send(events, now)
        except NotDeliveredError as error:
            if error.status not in _CONTENT:
                raise
            if len(changes) > 1:
                middle = len(changes) // 2
                first, refused = self._hand_over(changes[:middle], after)
                second, others = self._hand_over(changes[middle:], after)
                return first + second, refused + others
            reason = str(error)
        else:
            if rejected is None:
                return len(changes), []
            reason = f"{rejected.records} of {events.height} records rejected: {rejected.reason}"
        return 0, [
            Refusal(self.receiver.name, *change.key, change.session_date, after, reason, now)
            for change in changes
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
