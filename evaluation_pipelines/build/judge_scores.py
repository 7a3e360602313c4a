"""The scores of the ledger put into the lake, and those told who make something of them."""

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.build.build import Build, DateFailed
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
    """The dates, among some or all, of which the ledger knows more than the lake shows.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    changes = ScoreStore(stores.ledger).newest_changes()
    return {
        day
        for day, change in changes.items()
        if (days is None or day in days) and change != _shown(stores, day)
    }


def publish_scores(
    stores: Stores,
    days: Collection[date],
    on_made: Callable[[Mapping[date, BuiltPartition]], None] = lambda _made: None,
    clock: Callable[[], datetime] = utc_now,
    held_for: timedelta | None = None,
) -> list[DateFailed]:
    """Write ``judge_scores`` of some dates; gives those that could not be written.

    The daily tables of dates with news become due, since some are made from the scores. That comes
    last: whoever builds them must find what is new. Who builds them at once says for how long they
    are ``held_for`` him: should he die, others build them then.
    """
    news = unpublished_dates(stores, days)
    outcome = Build(stores, [JUDGE_SCORES.name], on_made, clock).run(days)
    failed = [each for each in outcome if isinstance(each, DateFailed)]
    now = clock()
    held_until = None if held_for is None else now + held_for
    RebuildQueue(stores.ledger).touch(
        news - {each.session_date for each in failed}, now, held_until
    )
    return failed


def _shown(stores: Stores, day: date) -> tuple[int, int | None]:
    """How many scorings the lake shows of a date, and when the newest of them changed last."""
    try:
        rows = stores.lake.read(JUDGE_SCORES, [day], _NEWEST_FIRST)
    except LakeError:
        return -1, None  # damaged: the ledger has all of it, and it is written anew
    newest = rows.select(pl.coalesce(*_NEWEST_FIRST).max()).item()
    return rows.height, None if newest is None else to_us(newest)
