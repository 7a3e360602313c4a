"""Polls of batches between two runs."""

from collections.abc import Callable
from datetime import datetime, timedelta

from evaluation_pipelines.judging.endpoint.batch_api import BatchApi, BatchApiError
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us


def has_work(stores: Stores, clock: Callable[[], datetime]) -> bool:
    """Return whether a run has something to collect, or a batch to find again or to cancel.

    Batches that were polled less than ``EVAL_JUDGE_BATCH_POLL_SECONDS`` ago are not polled again.
    An endpoint that cannot be reached is polled again then.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    now, store = clock(), BatchStore(stores.ledger)
    recent_us = to_us(now - timedelta(seconds=stores.settings.judge_batch_poll_seconds))
    due = [each for each in store.unfinished() if (each.polled_at_us or 0) <= recent_us]
    endpoint = stores.settings.judge_endpoint
    if endpoint is None or not due:
        return False
    if any(each.state not in {"submitted", "cancelling"} for each in due):
        return True
    with BatchApi(endpoint, stores.settings.judge_timeout_seconds) as api:
        return any([_has_ended(store, api, each, now) for each in due])  # noqa: C419 - polls all


def _has_ended(store: BatchStore, api: BatchApi, batch: JudgeBatch, now: datetime) -> bool:
    try:
        found = api.retrieve(batch.provider_batch_id or "")
    except BatchApiError:
        return False
    store.note_polled(batch, found, now)
    return found.has_ended or batch.is_late(now)
