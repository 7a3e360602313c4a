"""How an unfinished scoring goes on: who works on it, and what it waits for."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from evaluation_pipelines.judging.domain.batch.requests import batch_of
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.stores import Stores

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Mode of an unfinished scoring, and when its result is expected.

    Attributes:
        mode: Whether its requests are sent in a batch.
        expected_by: When the provider answers a turn of a batch, which another one may follow;
            ``None`` if that is not known.
        deferred_because: Why it was left for later; ``None`` if it was not.
    """

    mode: Literal["direct", "batch"]
    expected_by: datetime | None = None
    deferred_because: str | None = None


def waiting(stores: Stores, score: Score) -> Waiting | None:
    """Return how an unfinished scoring is being judged; ``None`` if it has ended."""
    if not score.is_open:
        return None
    batch_id = batch_of(score.lease_owner)
    if batch_id is None:
        return Waiting("direct", deferred_because=_why_deferred(stores, score))
    batch = BatchStore(stores.ledger).get(batch_id)
    if batch is None or batch.expected_by_us is None:
        return Waiting("batch")
    return Waiting("batch", _EPOCH + timedelta(microseconds=batch.expected_by_us))


def _why_deferred(stores: Stores, score: Score) -> str | None:
    """Return the reason in the newest event of a scoring, if that is a deferral."""
    if score.status != "pending":
        return None
    is_of_it = SERVICE_EVENTS.c.score_id == score.score_id
    newest = ServiceEvents(stores.ledger).newest(1, is_of_it)
    return newest[0].error_message if newest and newest[0].type == "scoring.deferred" else None
