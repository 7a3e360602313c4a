"""Dates whose judge scores are newer than their session evaluations."""

from datetime import date

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import JUDGE_SCORES, SESSION_EVALUATIONS, Table
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us


def judged_since_build(stores: Stores) -> set[date]:
    """Return the dates with scorings that have changed since the last build.

    Scores are published first, evaluated then: what is newer than either is not in a build.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    published, evaluated = (_written(stores, each) for each in (JUDGE_SCORES, SESSION_EVALUATIONS))
    return {
        day
        for day, (_, newest) in ScoreStore(stores.ledger).newest_changes().items()
        if newest is not None and newest >= min(published.get(day, 0), evaluated.get(day, 0))
    }


def _written(stores: Stores, table: Table) -> dict[date, int]:
    """Return when the parts of each date were written, in microseconds: the oldest of them."""
    written: dict[date, int] = {}
    for part in Manifest(stores.ledger).all_current(table.name):
        if part.session_date is not None:
            at = to_us(part.created_at)
            written[part.session_date] = min(at, written.get(part.session_date, at))
    return written
