"""Enforcement of the daily budget: spent and reserved money of all judging of a day (UTC).

The functions run within a transaction; ``lock_day_budget`` must come first in it.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget import DayReservation, day_begin_us
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import lock_for_budget, reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    SESSION_SCORES,
)
from evaluation_pipelines.times import to_us


def lock_day_budget(connection: sa.Connection, reservation: DayReservation | None) -> None:
    """Serialize transactions that reserve money under a daily limit."""
    if reservation is not None and reservation.max_day_usd is not None:
        lock_for_budget(connection)


def reserve(
    connection: sa.Connection,
    score_id: str,
    reservation: DayReservation | None,
    now: datetime,
    booked_usd: float = 0.0,
    reserved_usd: float = 0.0,
) -> dict[str, Any]:
    """Return the column values of a scoring that reserves more money.

    Args:
        connection: Connection of the transaction.
        score_id: The scoring.
        reservation: The money to reserve; ``None`` if the price is unknown.
        now: The time.
        booked_usd: Amount that the scoring has booked already.
        reserved_usd: Amount that the scoring has reserved already.

    Returns:
        Values for its row; empty if the price is unknown.

    Raises:
        DayBudgetReachedError: The reservation does not fit into the rest of the daily budget.
    """
    if reservation is None:
        return {}
    check_day_budget(connection, reservation, now, score_id, booked_usd + reserved_usd)
    return {
        "booked_cost_usd": booked_usd + reservation.now_usd,
        "reserved_cost_usd": reserved_usd + reservation.later_usd,
        "booked_at_us": to_us(now),
    }


def check_day_budget(
    connection: sa.Connection,
    reservation: DayReservation,
    now: datetime,
    score_id: str | None = None,
    already_usd: float = 0.0,
) -> None:
    """Raise an error if a reservation does not fit into the rest of the daily budget.

    Args:
        connection: Connection of the transaction.
        reservation: The money to reserve.
        now: The time.
        score_id: The scoring that reserves it; ``None`` if it is not for a scoring.
        already_usd: Amount that this scoring has booked or reserved already.

    Raises:
        DayBudgetReachedError: The reservation does not fit.
    """
    if reservation.max_day_usd is not None:
        others_usd, is_held = _usage_of_others(connection, score_id, now)
        refused = reservation.refusal(others_usd + already_usd)
        if refused is not None:
            fits_empty_budget = reservation.refusal(0.0) is None
            raise DayBudgetReachedError(refused, is_held=is_held and fits_empty_budget)


def spent_today(ledger: Ledger, now: datetime) -> float:
    """Return the US dollars that all judging of the day has spent or reserved.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    with reading(ledger.engine) as connection:
        usd, _ = _usage_of_others(connection, None, now)
    return usd


def _usage_of_others(
    connection: sa.Connection, score_id: str | None, now: datetime
) -> tuple[float, bool]:
    """Return the money that others spent and reserved today, and whether a call holds any of it.

    A scoring in progress counts completely, whenever its money was booked or reserved.
    """
    scorings = [
        _usage_of_scorings(connection, table, score_id, now)
        for table in (SESSION_SCORES, ANCHOR_SCORES)
    ]
    return sum(each for each, _ in scorings), any(is_held for _, is_held in scorings)


def _usage_of_scorings(
    connection: sa.Connection, table: sa.Table, score_id: str | None, now: datetime
) -> tuple[float, bool]:
    """Return the same for the other scorings of one table."""
    score = table.c
    is_in_progress = score.status == "in_progress"
    # Scorings that wait in a batch hold their money for hours: waiting for it would be in vain.
    is_held = sa.and_(is_in_progress, score.batch_id.is_(None))
    counted = sa.func.coalesce(score.booked_cost_usd, 0.0) + sa.func.coalesce(
        score.reserved_cost_usd, 0.0
    )
    sums = sa.select(
        sa.func.coalesce(sa.func.sum(counted), 0.0),
        sa.func.coalesce(sa.func.sum(sa.case((is_held, 1), else_=0)), 0),
    ).where(
        (score.booked_at_us >= day_begin_us(now)) | is_in_progress,
        score.score_id.is_distinct_from(score_id),
    )
    usd, held = connection.execute(sums).one()
    return float(usd), held > 0


def spending_line(ledger: Ledger, settings: Settings, now: datetime) -> str:
    """Return the money of the day and the limits of the settings in one line."""
    said = f"judge: ${spent_today(ledger, now):.4f} spent or reserved today (UTC)"
    limits = settings.judge_limits
    if limits:
        return f"{said}, limits: {limits}"
    why_not = settings.why_no_judge
    return f"{said}, {why_not or 'no limit is set: EVAL_JUDGE_MAX_COST_PER_DAY_USD sets one'}"
