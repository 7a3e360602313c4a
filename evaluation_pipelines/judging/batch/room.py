"""How many requests may be at the provider at once, as far as earlier batches show it.

A batch that was too large for the provider's queue halves it. After a batch that the endpoint
spoiled, a few requests find out whether it works again.
"""

import re
from collections.abc import Sequence

from evaluation_pipelines.judging.ledger.batch_store import JudgeBatch

_TOO_LARGE = re.compile(
    r"\benqueued\b|\btoken[ _]limit|\btoo (?:large|big|many)\b|\bqueue\b.{0,20}\bfull\b"
    r"|\bmaximum (?:size|number)\b",
    re.IGNORECASE,
)


def is_too_large(refusal: str) -> bool:
    """Return whether a provider refused a batch because of its size."""
    return _TOO_LARGE.search(refusal) is not None


def room_for(batches: Sequence[JudgeBatch], probe: int) -> int | None:
    """Return how many more requests of a model may be sent; ``None`` if nothing limits them.

    Args:
        batches: Batches of the model, old ones left out.
        probe: Requests that are sent after a batch that the endpoint spoiled.
    """
    out = sum(each.requests for each in batches if each.ended_at_us is None)
    refused = [each for each in batches if _was_too_large(each)]
    limits = [max(_requests_out_at(each, batches) // 2, 1) for each in refused]
    ended = [each for each in batches if each.provider_batch_id and each.ended_at_us]
    last = max(ended, key=lambda each: each.ended_at_us or 0, default=None)
    if last is not None and last.error_message and last not in refused:
        limits.append(probe)
    return min(limits) - out if limits else None


def _was_too_large(batch: JudgeBatch) -> bool:
    # Batches that were accepted have errors of single requests.
    is_refused = batch.provider_batch_id is None or batch.provider_status == "failed"
    return is_refused and is_too_large(batch.error_message or "")


def _requests_out_at(refused: JudgeBatch, batches: Sequence[JudgeBatch]) -> int:
    """Return the requests that were at the provider with a batch that it refused."""
    begun_us = refused.created_at_us
    return sum(
        each.requests
        for each in batches
        if each.created_at_us <= begun_us
        and (each is refused or each.ended_at_us is None or each.ended_at_us > begun_us)
    )
