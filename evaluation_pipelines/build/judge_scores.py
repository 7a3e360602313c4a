"""Publication of judge scores from the ledger to the lake."""

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.build.results import DateFailed
from evaluation_pipelines.judging.judge import utc_now
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us

_NEWEST_FIRST = ("completed_at", "started_at", "scored_at")


def unpublished_dates(stores: Stores, days: Collection[date] | None = None) -> set[date]:
    """Return the dates with scores in the ledger that the lake does not have.

    Args:
        stores: Lake and ledger.
        days: Dates to compare; all if ``None``.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    changes = ScoreStore(stores.ledger).newest_changes()
    return {
        day
        for day, change in changes.items()
        if (days is None or day in days) and change != _published_change(stores, day)
    }


def publish_scores(
    stores: Stores,
    days: Collection[date],
    on_published: Callable[[Mapping[date, BuiltPartition]], None] = lambda _published: None,
    clock: Callable[[], datetime] = utc_now,
    held_for: timedelta | None = None,
) -> list[DateFailed]:
    """Write ``judge_scores`` of some dates, and add dates with new scores to the rebuild queue.

    The dates are queued last, so that a rebuild finds the new scores.

    Args:
        stores: Lake and ledger.
        days: Session dates to write.
        on_published: As in ``Build``.
        clock: Returns the current time.
        held_for: Time during which the queued dates are left to the caller to build. If the
            caller dies, the sensor builds them afterwards. ``None`` makes them due immediately.

    Returns:
        The dates that could not be written.
    """
    changed = unpublished_dates(stores, days)
    outcome = Build(stores, [JUDGE_SCORES.name], on_published, clock).run(days)
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    now = clock()
    held_until = None if held_for is None else now + held_for
    RebuildQueue(stores.ledger).touch(
        changed - {each.session_date for each in failed}, now, held_until
    )
    return failed


def _published_change(stores: Stores, day: date) -> tuple[int, int | None]:
    """Return the number of published scorings of a date and the newest change of them."""
    try:
        rows = stores.lake.read(JUDGE_SCORES, [day], _NEWEST_FIRST)
    except LakeError:
        return -1, None  # damaged: the ledger has all scores, and the file is written again
    newest = rows.select(pl.coalesce(*_NEWEST_FIRST).max()).item()
    return rows.height, None if newest is None else to_us(newest)
