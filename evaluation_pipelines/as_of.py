"""The stores as of a past time, so that any report can be made again as it was then.

As of a time means the same for every report. Sessions, their performance and their tool reports
are what the telemetry that had *happened* by then makes of them. Cards, scores of judges,
overrides, audit samples, profile versions and lists of a model count from the moment they were
*made*. The score that counts follows from these by the same function as ever, and a session has
ended or not as of then. ``docs/as-of.md`` says what is not kept and so cannot come back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from functools import cache

import polars as pl

from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.scorecards.scorecard_tables import session_evaluations
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines.sessions.session_queries import query_sessions, query_tool_calls
from evaluation_pipelines.sessions.session_tables import session_performance
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.daily_table import Batch
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.stores import Stores, read_stores

NOT_BY_THEN = "no score of it had been made by then"

_SESSION = ["organization_id", "session_key"]
_LASTING = frozenset(("organization_id", "session_id", "session_key", "started_at"))
"""What of a window does not change when its session goes on."""


def as_of(stores: Stores, then: datetime) -> Stores:
    """The stores as they are seen from a past time; for reading only."""
    return _PastLake(stores, then).stores


@contextmanager
def read_stores_as_of(settings: Settings, then: datetime | None) -> Iterator[Stores]:
    """Open the stores to look at them, as of a past time unless it is None.

    Raises:
        NoLedgerError: nothing was ever ingested here.
        LedgerError: the ledger cannot be used.
    """
    with read_stores(settings) as stores:
        yield stores if then is None else as_of(stores, then)


@contextmanager
def read_lake_as_of(settings: Settings, then: datetime | None) -> Iterator[Lake]:
    """The lake alone, which needs no ledger unless it is asked about the past; raises likewise."""
    if then is None:
        yield Lake(settings.lake_dir)
        return
    with read_stores_as_of(settings, then) as stores:
        yield stores.lake


class _PastLake(Lake):
    """The lake without what came later; each day is worked out once."""

    def __init__(self, stores: Stores, then: datetime) -> None:
        super().__init__(stores.lake.root)
        self.stores = replace(stores, lake=self, ledger=replace(stores.ledger, as_of=then))
        self._then = then
        time = pl.lit(then).cast(UTC_TIME)
        self._had_happened = pl.col("event_time") <= time
        self._days: dict[str, Callable[[date], pl.DataFrame]] = {
            AGENT_EVENTS.name: lambda day: self._stored(AGENT_EVENTS, day, self._had_happened),
            AGENT_SESSIONS.name: cache(self._sessions),
            SESSION_PERFORMANCE.name: cache(self._performance),
            TOOL_REPORTS.name: cache(self._tool_reports),
            SCORECARDS.name: lambda day: self._stored(SCORECARDS, day, pl.col("scored_at") <= time),
            JUDGE_SCORES.name: lambda day: self._judge_scores(day, time),
            SESSION_EVALUATIONS.name: cache(self._evaluations),
        }
        self._went_on = cache(self._sessions_with_later_events)

    def read(
        self,
        table: Table,
        dates: Iterable[date],
        columns: Sequence[str] | None = None,
        where: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """The partitions of some dates as of then; see ``Lake.read``."""
        if table.name not in self._days:
            raise _not_kept(table)
        frames = [self._days[table.name](day) for day in dates]
        rows = pl.concat([table.schema.to_frame(), *frames])
        return (rows if where is None else rows.filter(where)).select(columns or pl.all())

    def select(self, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        """The rows of all partitions that meet every condition as of then."""
        lasting = [each for each in conditions if _LASTING.issuperset(each.meta.root_names())]
        which = pl.all_horizontal(pl.lit(value=True), *lasting)
        days = self.partitions(AGENT_SESSIONS)
        begun = super().read(AGENT_SESSIONS, days, ["session_date", *sorted(_LASTING)], which)
        days = begun["session_date"].unique().sort().to_list()
        return self.read(table, days).filter(*conditions)

    def read_whole(self, table: Table) -> pl.DataFrame:
        """Refused: of these tables there is the present alone."""
        raise _not_kept(table)

    def _write(self, frame: pl.DataFrame, table: Table, path: object) -> int:
        raise LakeError(f"{table.name}: what was in the past cannot be written.")

    def _stored(self, table: Table, day: date, which: pl.Expr | None = None) -> pl.DataFrame:
        return super().read(table, [day], where=which)

    def _sessions_with_later_events(self, day: date) -> list[str]:
        """Ids of sessions of a day of which not everything had happened."""
        later = super().read(AGENT_EVENTS, [day], ["session_id"], ~self._had_happened)
        return later["session_id"].unique().sort().to_list()

    def _events_by_then(self, day: date) -> pl.DataFrame:
        """What had happened in those sessions."""
        went_on = pl.col("session_id").is_in(self._went_on(day))
        return super().read(AGENT_EVENTS, [day], where=went_on & self._had_happened)

    def _sessions(self, day: date) -> pl.DataFrame:
        went_on = self._went_on(day)
        if not went_on:
            return self._stored(AGENT_SESSIONS, day)
        over = self._stored(AGENT_SESSIONS, day, ~pl.col("session_id").is_in(went_on))
        then = query_sessions(self._events_by_then(day), self.stores.settings)
        return pl.concat([over, then]).sort(AGENT_SESSIONS.order)

    def _performance(self, day: date) -> pl.DataFrame:
        if not self._went_on(day):
            return self._stored(SESSION_PERFORMANCE, day)
        return session_performance(Batch(self.stores, [day], self._then))[day].frame

    def _tool_reports(self, day: date) -> pl.DataFrame:
        went_on = self._went_on(day)
        if not went_on:
            return self._stored(TOOL_REPORTS, day)
        over = self._stored(TOOL_REPORTS, day, ~pl.col("session_id").is_in(went_on))
        sessions = self._days[AGENT_SESSIONS.name](day)
        then = tool_reports(query_tool_calls(self._events_by_then(day)), sessions)
        return pl.concat([over, then]).sort(TOOL_REPORTS.order)

    def _judge_scores(self, day: date, time: pl.Expr) -> pl.DataFrame:
        scores = self._stored(JUDGE_SCORES, day, pl.col("completed_at") <= time)
        sessions = self._days[AGENT_SESSIONS.name](day)
        content = sessions.select(*_SESSION, now="content_hash")
        return (
            scores.join(content, on=_SESSION, how="left", maintain_order="left")
            .with_columns(is_current=pl.col("content_hash") == pl.col("now"))
            .drop("now")
        )

    def _evaluations(self, day: date) -> pl.DataFrame:
        if self._days[AGENT_SESSIONS.name](day).is_empty():
            return SESSION_EVALUATIONS.schema.to_frame()
        found = session_evaluations(Batch(self.stores, [day], self._then))[day].frame
        without = pl.col("effective_100").is_null() & pl.col("reason").is_null()
        why = pl.when(without).then(pl.lit(NOT_BY_THEN)).otherwise("reason")
        return found.with_columns(reason=why)


def _not_kept(table: Table) -> LakeError:
    return LakeError(f"{table.name} is not kept as of a past time.")
