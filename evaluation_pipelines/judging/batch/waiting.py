"""How an unfinished scoring is being judged, and when its result is expected."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from evaluation_pipelines.judging.domain.batch.requests import batch_of
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.storage.stores import Stores

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Mode of an unfinished scoring; ``expected_by`` is ``None`` if that is not known.

    The provider answers a turn by then; another turn may follow.
    """

    mode: Literal["direct", "batch"]
    expected_by: datetime | None = None


def waiting(stores: Stores, score: Score) -> Waiting | None:
    """Return how an unfinished scoring is being judged; ``None`` if it has ended."""
    if not score.is_open:
        return None
    batch_id = batch_of(score.lease_owner)
    if batch_id is None:
        return Waiting("direct")
    batch = BatchStore(stores.ledger).get(batch_id)
    if batch is None or batch.expected_by_us is None:
        return Waiting("batch")
    return Waiting("batch", _EPOCH + timedelta(microseconds=batch.expected_by_us))
