"""Session dates of a nightly run."""

from collections.abc import Callable
from datetime import date, datetime

from evaluation_pipelines.build.judge_scores import unpublished_dates
from evaluation_pipelines.judging.find_due import find_due_in_lake
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.stores import Stores


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
