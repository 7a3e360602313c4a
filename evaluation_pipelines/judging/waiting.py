"""How an unfinished scoring goes on: who works on it, and what it waits for."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import from_us


@dataclass(frozen=True, slots=True)
class Waiting:
    """Mode of an unfinished scoring, and when its result is expected.

    Attributes:
        mode: Whether its requests are sent in a batch.
        expected_by: When the provider answers a turn of a batch, which another one may follow;
            ``None`` if that is not known.
        next_try_at: When it is tried again at the earliest; ``None`` as soon as a judge is free.
        deferred_because: Why it was left for later; ``None`` if it was not.
    """

    mode: Literal["direct", "batch"]
    expected_by: datetime | None = None
    next_try_at: datetime | None = None
    deferred_because: str | None = None

    @property
    def next_try(self) -> str:
        """Tell what a scoring that no judge works on waits for."""
        at = self.next_try_at
        when = "" if at is None else f", next try {at.astimezone(UTC):%H:%M} UTC"
        return f"It waits for the judge{when}"


def waiting(stores: Stores, score: Score) -> Waiting | None:
    """Return how an unfinished scoring is being judged; ``None`` if it has ended."""
    if not score.is_open:
        return None
    if score.batch_id is None:
        tried_at = None if score.next_try_at_us is None else from_us(score.next_try_at_us)
        return Waiting(
            "direct", next_try_at=tried_at, deferred_because=_why_deferred(stores, score)
        )
    batch = BatchStore(stores.ledger).get(score.batch_id)
    if batch is None or batch.expected_by_us is None:
        return Waiting("batch")
    return Waiting("batch", from_us(batch.expected_by_us))


def _why_deferred(stores: Stores, score: Score) -> str | None:
    """Return the reason in the newest event of a scoring, if that is a deferral."""
    if score.status != "pending":
        return None
    is_of_it = SERVICE_EVENTS.c.score_id == score.score_id
    newest = ServiceEvents(stores.ledger).newest(1, is_of_it)
    return newest[0].error_message if newest and newest[0].type == "scoring.deferred" else None
