"""What all judging of a day has spent and set aside, and that no more is set aside than may be.

Steps within a transaction; ``lock_for_budget`` comes first in it.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation, day_begin_us
from evaluation_pipelines.judging.ledger.errors import DayBudgetReachedError
from evaluation_pipelines.storage.ledger.engine import lock_for_budget
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES, TOOL_PRIORITIES
from evaluation_pipelines.times import to_us

_SCORE = SESSION_SCORES.c
_PRIORITY = TOOL_PRIORITIES.c


def wait_for_turn(connection: sa.Connection, stake: DayReservation | None) -> None:
    """Begin a transaction that sets something aside under a limit: one at a time."""
    if stake is not None and stake.most_of_day_usd is not None:
        lock_for_budget(connection)


def set_aside(
    connection: sa.Connection,
    score_id: str,
    stake: DayReservation | None,
    now: datetime,
    booked_usd: float = 0.0,
    reserved_usd: float = 0.0,
) -> dict[str, Any]:
    """Values of a scoring for which a stake is set aside beside what it has; nothing if unknown.

    Raises:
        DayBudgetReachedError: it does not fit into what is left of the day.
    """
    if stake is None:
        return {}
    expect_room(connection, stake, now, score_id, booked_usd + reserved_usd)
    return {
        "booked_cost_usd": booked_usd + stake.asked_usd,
        "reserved_cost_usd": reserved_usd + stake.later_usd,
        "booked_at_us": to_us(now),
    }


def expect_room(
    connection: sa.Connection,
    stake: DayReservation,
    now: datetime,
    score_id: str | None = None,
    already_usd: float = 0.0,
) -> None:
    """Let a stake pass that fits into what is left of the day.

    ``score_id`` is the scoring that it is for, and that has ``already_usd``; None is no scoring.

    Raises:
        DayBudgetReachedError: it does not fit.
    """
    if stake.most_of_day_usd is not None:
        others_usd, is_held = _others(connection, score_id, now)
        refused = stake.refusal(others_usd + already_usd)
        if refused is not None:
            fits_some_day = stake.refusal(0.0) is None
            raise DayBudgetReachedError(refused, is_held=is_held and fits_some_day)


def _others(connection: sa.Connection, score_id: str | None, now: datetime) -> tuple[float, bool]:
    """What is spent and set aside today for all else, and whether any scoring is under way.

    A scoring that goes on over midnight counts whole for the day on which it ends.
    """
    is_leased = _SCORE.lease_expires_at_us > to_us(now)
    counted = sa.func.coalesce(_SCORE.booked_cost_usd, 0.0) + sa.case(
        (is_leased, sa.func.coalesce(_SCORE.reserved_cost_usd, 0.0)), else_=0.0
    )
    sums = sa.select(
        sa.func.coalesce(sa.func.sum(counted), 0.0),
        sa.func.coalesce(sa.func.sum(sa.case((is_leased, 1), else_=0)), 0),
    ).where(_SCORE.booked_at_us >= day_begin_us(now), _SCORE.score_id.is_distinct_from(score_id))
    usd, leased = connection.execute(sums).one()
    questions = sa.select(sa.func.coalesce(sa.func.sum(_PRIORITY.booked_cost_usd), 0.0)).where(
        _PRIORITY.asked_at_us >= day_begin_us(now)
    )
    return float(usd) + float(connection.scalar(questions) or 0.0), leased > 0
