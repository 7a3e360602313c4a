"""Missing tools named by judges, counted from the lake."""

from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools import (
    SCORE_COLUMNS,
    MissingToolCounts,
    Period,
    count_missing_tools,
)
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.schemas import AGENT_SESSIONS, MISSING_TOOLS
from evaluation_pipelines.sessions.chosen import rows_of_chosen
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import USUAL_DAYS


def last_period(now: datetime) -> Period:
    """Return the 28 complete days (UTC) before ``now``."""
    today = now.astimezone(UTC).date()
    return Period(today - timedelta(days=USUAL_DAYS), today)


def missing_tools(
    stores: Stores,
    period: Period,
    organization: str | None = None,
    which: SessionFilter = ALL_SESSIONS,
) -> MissingToolCounts:
    """Return the missing tools of a period.

    Args:
        stores: Lake and ledger.
        period: Session dates.
        organization: The only organization to include; ``None`` for all.
        which: The sessions to include.

    Raises:
        LakeError: A file cannot be read.
    """
    days = _days(period)
    condition = pl.lit(value=True)
    if organization is not None:
        condition = pl.col("organization_id") == organization
    scores = counting_scores(stores, days, SCORE_COLUMNS, condition)
    sessions = stores.lake.read(
        AGENT_SESSIONS, days, ["organization_id", "session_key", "masque"], condition
    )
    chosen = rows_of_chosen(stores.lake, which, scores)
    return count_missing_tools(chosen, sessions, period)


def write_missing_tools(stores: Stores, period: Period) -> MissingToolCounts:
    """Replace the table ``missing_tools`` with a period and the one of the same length before it.

    Returns:
        The missing tools of ``period``.

    Raises:
        LakeError: A file cannot be read or written.
    """
    before = Period(period.start - (period.end - period.start), period.start)
    present, past = (missing_tools(stores, each) for each in (period, before))
    rows = pl.concat([past.tools, present.tools]).sort(MISSING_TOOLS.order)
    stores.lake.write_whole(rows, MISSING_TOOLS)
    return present


def _days(period: Period) -> list[date]:
    return [period.start + timedelta(days=n) for n in range((period.end - period.start).days)]
