"""Numbers of the scorings of today and the time of the newest, from the ledger."""

from collections import Counter
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import day_begin_us
from evaluation_pipelines.judging.domain.scorings_of_day import ScoringsOfDay
from evaluation_pipelines.schemas.judge_score import OPEN, TERMINAL
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.times import from_us

_SCORE = SESSION_SCORES.c


def scorings_of_day(
    ledger: Ledger, now: datetime, organization_id: str | None = None
) -> ScoringsOfDay:
    """Return the numbers of today, of one organization or of all.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    is_of_day = _SCORE.status.in_(TERMINAL) & (_SCORE.started_at_us >= day_begin_us(now))
    cost = _SCORE.judge_cost_usd
    counted = (sa.func.count(), sa.func.coalesce(sa.func.sum(cost), 0.0), sa.func.count(cost))
    group = (_SCORE.status, _SCORE.judge_model)
    query = sa.select(*group, *counted).where(is_of_day | _SCORE.status.in_(OPEN))
    if organization_id is not None:
        query = query.where(_SCORE.organization_id == organization_id)
    with reading(ledger.engine) as connection:
        rows = connection.execute(query.group_by(*group)).all()
    number: Counter[str] = Counter()
    for status, _, count, _, _ in rows:
        number[status] += count
    ended = [row for row in rows if row[0] in TERMINAL]
    return ScoringsOfDay(
        completed=number["completed"],
        failed=number["failed"],
        open=sum(number[status] for status in OPEN),
        cost_usd=float(sum(usd for *_, usd, _ in ended)),
        without_cost=sum(count - known for *_, count, _, known in ended),
        models=tuple(sorted(model for status, model, *_ in rows if status == "completed")),
    )


def newest_scoring(
    ledger: Ledger, judge_model: str | None, organization_id: str | None = None
) -> datetime | None:
    """Return when the newest score of a model was begun, of one organization or of all.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    query = sa.select(_SCORE.started_at_us).where(
        _SCORE.status == "completed",
        _SCORE.started_at_us.is_not(None),
        _SCORE.judge_model == judge_model,
    )
    if organization_id is not None:
        query = query.where(_SCORE.organization_id == organization_id)
    with reading(ledger.engine) as connection:
        found = connection.scalar(query.order_by(_SCORE.started_at_us.desc()).limit(1))
    return None if found is None else from_us(found)
