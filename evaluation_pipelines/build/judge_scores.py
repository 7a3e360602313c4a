"""Judge scores that only the ledger has: their publication, and the dates of a nightly run."""

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.build.build import Build, DateFailed
from evaluation_pipelines.judging.find_due import find_due_in_lake
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.run import utc_now
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
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


def night_dates(
    stores: Stores,
    now: datetime,
    last_done: date | None,
    is_requestable: Callable[[date], bool],
) -> tuple[date, date] | None:
    """Return the first and last session date of a nightly run.

    The range goes back to the last date of the last nightly run that succeeded, however long ago,
    and to the oldest date with sessions to judge or with unpublished scores.

    Args:
        stores: Lake, ledger and settings.
        now: Time of the run.
        last_done: Last date of the last nightly run that succeeded; ``None`` before the first.
        is_requestable: True for a date that a run can be requested for.

    Returns:
        The dates, or ``None`` if there are no sessions.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
        JudgeNotReadyError: As for ``load_plans``.
    """
    known = list(filter(is_requestable, stores.lake.partitions(AGENT_SESSIONS)))
    if not known:
        return None
    days = {day for day in known if last_done is None or day >= last_done} or {known[-1]}
    # A killed run may have judged sessions without publishing their scores.
    days |= set(filter(is_requestable, unpublished_dates(stores)))
    if stores.settings.why_no_judge is None:
        days |= find_due_in_lake(stores, now, None, is_requestable).days
    return min(days), max(days)
