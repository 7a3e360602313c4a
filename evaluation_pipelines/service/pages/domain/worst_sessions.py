"""What went wrong on the latest day that is over: sessions that failed, and the lowest scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import YELLOW_FROM, band
from evaluation_pipelines.scorecards.domain.why_low import why_low
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
        all_failed: Number of all that failed.
        all_low: Number of all whose score is red, failed ones included.
        waiting: Number of all whose score is not shown before their blind review.
    """

    day: date
    is_yesterday: bool
    failed: Sequence[WorstSession]
    low: Sequence[WorstSession]
    all_failed: int
    all_low: int
    waiting: int

    @property
    def groups(self) -> Sequence[tuple[str, Sequence[WorstSession]]]:
        """Heading and sessions of both, where there are any."""
        both = ((_FAILED, self.failed), (_LOW, self.low))
        return [(heading, sessions) for heading, sessions in both if sessions]


_FAILED = "Failed"
_LOW = "Lowest scores"
_REVIEW_DUE = "a blind review is due"


def worst_of_day(rows: pl.DataFrame, today: date, number: int) -> WorstOfDay | None:
    """Return the worst sessions of the latest day before today; ``None`` if there is no such day.

    Those that failed come first, then the lowest scores, for which some room is kept. A session
    whose score is withheld is there if it failed, without its score.

    Args:
        rows: Rows of the session table, the newest first.
        today: The day that is not over.
        number: How many sessions at most.
    """
    day = rows.filter(pl.col("session_date") < today)["session_date"].max()
    if not isinstance(day, date):
        return None
    of_day = rows.filter(pl.col("session_date") == day)
    has_failed, is_low = pl.col("status") == _FAILED_STATUS, pl.col("effective_100") < YELLOW_FROM
    is_shown = ~pl.col(WAITS)
    worst_first = of_day.sort("effective_100", nulls_last=True, maintain_order=True)
    failed = worst_first.filter(has_failed)
    low = worst_first.filter(~has_failed, is_low, is_shown)
    failures = failed.head(number - min(low.height, number * 2 // 5))
    return WorstOfDay(
        day,
        day == today - timedelta(days=1),
        [_worst(row) for row in failures.iter_rows(named=True)],
        [_worst(row) for row in low.head(number - failures.height).iter_rows(named=True)],
        failed.height,
        of_day.filter(is_low, is_shown).height,
        of_day.filter(pl.col(WAITS)).height,
    )


def _worst(row: dict[str, Any]) -> WorstSession:
    score = None if row[WAITS] else row["effective_100"]
    return WorstSession(
        organization=row["organization_id"],
        session_key=row["session_key"],
        agent=row["agent_id"],
        model=row["model"],
        status=row["status"],
        score=points(score),
        score_class="unscored" if score is None else band(score),
        why=_REVIEW_DUE if row[WAITS] else why_low(row),
    )
