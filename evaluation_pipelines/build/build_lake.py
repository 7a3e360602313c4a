"""Lake of a build that keeps percentiles right of dates that are built already."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.performance import (
    HISTORY_DAYS,
    RANKED,
    percentile_in_class,
)
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue, outdate
from evaluation_pipelines.storage.staging import StagingLake

_DAY = pl.col("session_date")


class BuildLake(StagingLake):
    """A lake whose later dates become due with the scores that change their percentiles.

    Dates can be built in any order, and telemetry can be late: ``percentile_in_class`` would
    otherwise stay that among the scores that there were when a date was built.

    Args:
        lake: The lake.
        ledger: The ledger.
        days: The dates of the build, each of which is built after those before it.
    """

    def __init__(self, lake: Lake, ledger: Ledger, days: Collection[date]) -> None:
        super().__init__(lake, ledger)
        self._current_lake, self._days = lake, frozenset(days)

    def _on_commit(self, day: date) -> Callable[[sa.Connection], None]:
        if not self._has_other_scores(day):
            return super()._on_commit(day)
        weeks = {day + timedelta(days=ahead) for ahead in range(1, HISTORY_DAYS + 1)}
        later, in_build = sorted(weeks - self._days), weeks & self._days
        unchanged, now = self._unchanged(later), datetime.now(UTC)
        return lambda connection: outdate(connection, later, unchanged, in_build, now)

    def _has_other_scores(self, day: date) -> bool:
        if all(part.table_name != SESSION_PERFORMANCE.name for part in self._of(day)):
            return False
        try:
            before = _ranked(self._current_lake, day)
        except LakeError:  # a damaged file, which is built again
            return True
        return not before.equals(_ranked(self, day))

    def _unchanged(self, later: Sequence[date]) -> dict[date, int]:
        """Return the built versions of dates whose percentiles are what they would be now.

        The versions are read first: a date that is built meanwhile has another one.
        """
        queued = {each.session_date: each for each in RebuildQueue(self._ledger).all()}
        built = [day for day in later if day in queued and queued[day].is_built]
        if not built:
            return {}
        first = built[0] - timedelta(days=HISTORY_DAYS)
        days = [first + timedelta(days=each) for each in range((built[-1] - first).days + 1)]
        columns = ["session_date", *RANKED, "percentile_in_class"]
        try:
            rows = self.read(SESSION_PERFORMANCE, days, columns)
        except LakeError:  # a damaged file: what it says of these dates is not known
            return {}
        return {day: queued[day].version for day in built if _has_its_percentiles(rows, day)}


def _ranked(lake: Lake, day: date) -> pl.DataFrame:
    scores = lake.read(SESSION_PERFORMANCE, [day], RANKED)
    return scores.drop_nulls("composite").sort(RANKED)


def _has_its_percentiles(rows: pl.DataFrame, day: date) -> bool:
    first, last = day - timedelta(days=HISTORY_DAYS), day - timedelta(days=1)
    of_day = rows.filter(day == _DAY)
    ranked = percentile_in_class(of_day, rows.filter(_DAY.is_between(first, last)))
    return ranked["percentile_in_class"].equals(of_day["percentile_in_class"])
