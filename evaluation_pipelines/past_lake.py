"""The lake as of a past time, computed from what had happened or was created by then."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cache

import polars as pl

from evaluation_pipelines.people.identity_store import IdentityStore
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.scorecards.scorecard_tables import session_evaluations
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines.sessions.session_queries import query_sessions, query_tool_calls
from evaluation_pipelines.sessions.session_tables import session_performance
from evaluation_pipelines.storage.daily_table import Batch
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

NOT_BY_THEN = "it had no score by then"

_LASTING = frozenset(("organization_id", "session_id", "session_key", "started_at"))
"""Columns of a window that do not change when its session goes on."""


class PastLake(Lake):
    """The lake without later data; each date is computed once."""

    def __init__(self, stores: Stores, then: datetime) -> None:
        super().__init__(stores.lake.store, Manifest(stores.ledger))
        self.stores = replace(stores, lake=self, ledger=replace(stores.ledger, as_of=then))
        self._then = then
        time = pl.lit(then).cast(UTC_TIME)
        self._had_happened = pl.col("event_time") <= time
        self._days: dict[str, Callable[[date], pl.DataFrame]] = {
            AGENT_EVENTS.name: lambda day: self._stored(AGENT_EVENTS, day, self._had_happened),
            EVENT_TEXTS_LANDED.name: lambda day: self._stored(EVENT_TEXTS_LANDED, day),
            AGENT_SESSIONS.name: cache(self._sessions),
            # A later correction leaves it unknown then.
            SESSION_OUTCOMES.name: lambda day: self._stored(
                SESSION_OUTCOMES, day, pl.col("read_at") <= time
            ),
            SESSION_PERFORMANCE.name: cache(self._performance),
            TOOL_REPORTS.name: cache(self._tool_reports),
            SCORECARDS.name: lambda day: self._stored(SCORECARDS, day, pl.col("scored_at") <= time),
            JUDGE_SCORES.name: lambda day: self._judge_scores(day, time),
            SESSION_EVALUATIONS.name: cache(self._evaluations),
        }
        self._continued = cache(self._sessions_with_later_events)

    def snapshot(self) -> Lake:
        """Return the lake itself: the past does not change."""
        return self

    def read(
        self,
        table: Table,
        dates: Iterable[date],
        columns: Sequence[str] | None = None,
        where: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """Return the partitions of dates as of the time; see ``Lake.read``."""
        if table.name not in self._days:
            raise _not_kept(table)
        frames = [self._days[table.name](day) for day in dates]
        rows = pl.concat([table.no_rows, *frames])
        if not self.shard.is_whole:
            rows = self.shard.rows_of(rows)
        return (rows if where is None else rows.filter(where)).select(columns or pl.all())

    def select(self, table: Table, *conditions: pl.Expr) -> pl.DataFrame:
        """Return the rows of all partitions that meet every condition as of the time."""
        lasting = [
            condition
            for condition in conditions
            if _LASTING.issuperset(condition.meta.root_names())
        ]
        which = pl.all_horizontal(pl.lit(value=True), *lasting)
        days = self.partitions(AGENT_SESSIONS)
        sessions = super().read(AGENT_SESSIONS, days, ["session_date", *sorted(_LASTING)], which)
        days = sessions["session_date"].unique().sort().to_list()
        return self.read(table, days).filter(*conditions)

    def read_whole(self, table: Table) -> pl.DataFrame:
        """Raise LakeError: these tables have no past state."""
        raise _not_kept(table)

    def _write(self, frame: pl.DataFrame, table: Table, path: str) -> tuple[int, str]:
        raise LakeError(f"{table.name}: the past is read-only.")

    def _stored(self, table: Table, day: date, which: pl.Expr | None = None) -> pl.DataFrame:
        return super().read(table, [day], where=which)

    def _sessions_with_later_events(self, day: date) -> list[str]:
        """Return the ids of the sessions of a date with events after the time."""
        later = super().read(AGENT_EVENTS, [day], ["session_id"], ~self._had_happened)
        return later["session_id"].unique().sort().to_list()

    def _events_by_then(self, day: date) -> pl.DataFrame:
        """Return the events up to the time of the sessions with later events."""
        continued = pl.col("session_id").is_in(self._continued(day))
        return super().read(AGENT_EVENTS, [day], where=continued & self._had_happened)

    def _sessions(self, day: date) -> pl.DataFrame:
        continued = self._continued(day)
        if not continued:
            return self._stored(AGENT_SESSIONS, day)
        complete = self._stored(AGENT_SESSIONS, day, ~pl.col("session_id").is_in(continued))
        identities = IdentityStore(self.stores.ledger).current()
        partial = query_sessions(self._events_by_then(day), self.stores.settings, identities)
        return pl.concat([complete, partial]).sort(AGENT_SESSIONS.order)

    def _performance(self, day: date) -> pl.DataFrame:
        if not self._continued(day):
            return self._stored(SESSION_PERFORMANCE, day)
        return session_performance(Batch(self.stores, [day], self._then))[day].frame

    def _tool_reports(self, day: date) -> pl.DataFrame:
        continued = self._continued(day)
        if not continued:
            return self._stored(TOOL_REPORTS, day)
        complete = self._stored(TOOL_REPORTS, day, ~pl.col("session_id").is_in(continued))
        sessions = self._days[AGENT_SESSIONS.name](day)
        texts = self._stored(EVENT_TEXTS_LANDED, day, pl.col("session_id").is_in(continued))
        partial = tool_reports(query_tool_calls(self._events_by_then(day), texts), sessions)
        return pl.concat([complete, partial]).sort(TOOL_REPORTS.order)

    def _judge_scores(self, day: date, time: pl.Expr) -> pl.DataFrame:
        scores = self._stored(JUDGE_SCORES, day, pl.col("completed_at") <= time)
        sessions = self._days[AGENT_SESSIONS.name](day)
        content = sessions.select(*SESSION_KEY, current_hash="content_hash")
        return (
            scores.join(content, on=SESSION_KEY, how="left", maintain_order="left")
            .with_columns(is_current=pl.col("content_hash") == pl.col("current_hash"))
            .drop("current_hash")
        )

    def _evaluations(self, day: date) -> pl.DataFrame:
        if self._days[AGENT_SESSIONS.name](day).is_empty():
            return SESSION_EVALUATIONS.schema.to_frame()
        found = session_evaluations(Batch(self.stores, [day], self._then))[day].frame
        is_unexplained = pl.col("effective_100").is_null() & pl.col("reason").is_null()
        reason = pl.when(is_unexplained).then(pl.lit(NOT_BY_THEN)).otherwise("reason")
        return found.with_columns(reason=reason)


def _not_kept(table: Table) -> LakeError:
    return LakeError(f"{table.name} is not kept as of a past time.")
