"""Tables of the lake that the books of some dates compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.counts import (
    EVENT_COLUMNS,
    EventCounts,
    SessionCounts,
    count_events,
    count_sessions,
)
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    CONTENT_KEY,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.sessions.domain.checks import only_attributed, senders
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.parts import shards
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.organizations import with_organizations

COMPARED = (
    AGENT_EVENTS_LANDED,
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    SESSION_EVALUATIONS,
    SCORECARDS,
)
"""The tables; as long as a day has the same files of them, they say the same."""


@dataclass(frozen=True, slots=True)
class ComparedTables:
    """Tables of a day in the lake.

    ``filed`` is the number of landed events in the manifest, ``senders`` are the sessions that sent
    events, ``silent`` those that sent masques only, ``subagents`` the number of those whose events
    are filed under the session that started them. Events are counted shard by shard.
    """

    filed: int
    events: EventCounts
    senders: pl.DataFrame
    silent: list[str]
    subagents: int
    windows: pl.DataFrame
    performance: pl.DataFrame
    evaluations: pl.DataFrame
    card_ids: list[str]

    @classmethod
    def read(cls, stores: Stores, days: Sequence[date]) -> dict[date, "ComparedTables"]:
        """Read the tables of some dates; events of one shard at a time."""
        lake = stores.lake
        filed = lake.parts(AGENT_EVENTS_LANDED, days)
        counts = dict.fromkeys(days, EventCounts())
        sent: dict[date, list[pl.DataFrame]] = {day: [] for day in days}
        silent: dict[date, list[str]] = {day: [] for day in days}
        subagents = dict.fromkeys(days, 0)
        for shard in shards(stores.settings.shards):
            names = ["session_date", *EVENT_COLUMNS]
            rows = lake.of(shard).read(AGENT_EVENTS_LANDED, days, names)
            landed = rows_by_date(with_organizations(rows), days)
            columns = [*EVENT_COLUMNS, "subagent_session_id"]
            kept = _by_date(lake.of(shard), AGENT_EVENTS, days, columns)
            for day, events in kept.items():
                subagents[day] += events["subagent_session_id"].drop_nulls().n_unique()
                counts[day] += count_events(landed[day], events)
                sent[day].append(senders(events))
                silent[day] += only_attributed(events)
        windows = _by_date(lake, AGENT_SESSIONS, days, (*CONTENT_KEY, "session_id"))
        performance = _by_date(lake, SESSION_PERFORMANCE, days, CONTENT_KEY)
        evaluations = _by_date(lake, SESSION_EVALUATIONS, days, (*CONTENT_KEY, "card_id"))
        cards = _by_date(lake, SCORECARDS, days, ["card_id"])
        return {
            day: cls(
                sum(part.row_count for part in filed if part.session_date == day),
                counts[day],
                pl.concat(sent[day]),
                silent[day],
                subagents[day],
                windows[day],
                performance[day],
                evaluations[day],
                cards[day]["card_id"].to_list(),
            )
            for day in days
        }

    def count_sessions(self) -> SessionCounts:
        """Return how the tables of sessions agree."""
        return count_sessions(
            self.senders, self.windows, self.performance, self.evaluations, self.card_ids
        )


def _by_date(
    lake: Lake, table: Table, days: Sequence[date], columns: Sequence[str]
) -> Mapping[date, pl.DataFrame]:
    return rows_by_date(lake.read(table, days, ["session_date", *columns]), days)
