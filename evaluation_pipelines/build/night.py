"""Which dates a night is about."""

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
    is_asked: Callable[[date], bool],
) -> tuple[date, date] | None:
    """First and last session date of a night; None while there is no session.

    It goes back to the last date of the last night that succeeded, however long ago that was, and
    to the oldest date on which something is due to be judged.

    Args:
        stores: Where everything lies.
        now: The time of the night.
        last_done: Last date of the last night that succeeded; None before the first one.
        is_asked: Whether a date is one that can be asked for.

    Raises:
        LakeError: a table cannot be read.
        LedgerError: the ledger cannot be used.
        JudgeNotReadyError, RubricError: as ``load_plans`` does.
    """
    known = list(filter(is_asked, stores.lake.partitions(AGENT_SESSIONS)))
    if not known:
        return None
    days = {day for day in known if last_done is None or day >= last_done} or {known[-1]}
    # With what a run that was killed had judged and not written into the lake.
    days |= set(filter(is_asked, unpublished_dates(stores)))
    if stores.settings.why_no_judge is None:
        days |= find_due_in_lake(stores, now, None, is_asked).days
    return min(days), max(days)
