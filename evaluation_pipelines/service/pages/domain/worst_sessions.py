"""What went wrong on the latest day that is over: sessions that failed, and the lowest scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import band
from evaluation_pipelines.scorecards.domain.why_low import needs_reason, why_low
from evaluation_pipelines.scorecards.domain.withheld import WAITS

_FAILED_STATUS = "failed"


@dataclass(frozen=True, slots=True)
class WorstSession:
    """A session that failed or has a red score; texts are not escaped."""

    organization: str
    session_key: str
    agent: str | None
    model: str | None
    status: str
    score: str
    score_class: str
    why: str | None


@dataclass(frozen=True, slots=True)
class WorstOfDay:
    """The worst sessions of a day; none if nothing failed and no score is red.

    Attributes:
        day: The day.
        is_yesterday: True if it is the last one.
        failed: Sessions that failed, whatever their score: what they were asked for is not done.
        low: The others, the lowest scores first.
    """

    day: date
    is_yesterday: bool
    failed: Sequence[WorstSession]
    low: Sequence[WorstSession]

    @property
    def groups(self) -> Sequence[tuple[str, Sequence[WorstSession]]]:
        """Heading and sessions of both, where there are any."""
        both = ((_FAILED, self.failed), (_LOW_OTHERS if self.failed else _LOW, self.low))
        return [(heading, sessions) for heading, sessions in both if sessions]


_FAILED = "They failed, whatever they score"
_LOW, _LOW_OTHERS = "The lowest scores", "The lowest scores of the others"


def worst_of_day(rows: pl.DataFrame, today: date, number: int) -> WorstOfDay | None:
    """Return the worst sessions of the latest day before today; ``None`` if there is no such day.

    Those that failed come first, then the lowest scores. Sessions whose scores are withheld are
    left out.

    Args:
        rows: Rows of the session table, the newest first.
        today: The day that is not over.
        number: How many sessions at most.
    """
    day = rows.filter(pl.col("session_date") < today)["session_date"].max()
    if not isinstance(day, date):
        return None
    failed = pl.col("status") == _FAILED_STATUS
    bad = rows.filter(pl.col("session_date") == day, needs_reason(), ~pl.col(WAITS))
    worst = bad.sort(failed.not_(), "effective_100", nulls_last=True, maintain_order=True)
    found = [_worst(row) for row in worst.head(number).iter_rows(named=True)]
    low = [each for each in found if each.status != _FAILED_STATUS]
    failures = [each for each in found if each.status == _FAILED_STATUS]
    return WorstOfDay(day, day == today - timedelta(days=1), failures, low)


def _worst(row: dict[str, Any]) -> WorstSession:
    score = row["effective_100"]
    return WorstSession(
        organization=row["organization_id"],
        session_key=row["session_key"],
        agent=row["agent_id"],
        model=row["model"],
        status=row["status"],
        score=points(score),
        score_class="unscored" if score is None else band(score),
        why=why_low(row),
    )
