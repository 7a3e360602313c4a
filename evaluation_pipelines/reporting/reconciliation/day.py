"""The books of a day: every session in one state, every event in one place."""

from dataclasses import dataclass
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.reporting.domain.reconciliation.counts import (
    EVENT_COLUMNS,
    SessionCounts,
    count_events,
    count_sessions,
)
from evaluation_pipelines.reporting.domain.reconciliation.day import DayBooks, count_states
from evaluation_pipelines.reporting.domain.reconciliation.equations import (
    IngestTotals,
    Scorings,
    equations,
)
from evaluation_pipelines.reporting.domain.reconciliation.rows import SCORINGS, book_rows
from evaluation_pipelines.reporting.reconciliation.bookings import bookings
from evaluation_pipelines.reporting.reconciliation.unattributed import unattributed_counts
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches

_SESSION = ["organization_id", "session_key"]
_CONTENT = [*_SESSION, "content_hash"]


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables of a day in the lake; ``filed`` is the number of landed events in the manifest."""

    filed: int
    landed: pl.DataFrame
    events: pl.DataFrame
    windows: pl.DataFrame
    performance: pl.DataFrame
    evaluations: pl.DataFrame
    card_ids: list[str]

    @classmethod
    def read(cls, stores: Stores, day: date) -> "_Tables":
        lake, landed = stores.lake, AGENT_EVENTS_LANDED
        parts = Manifest(stores.ledger).current(landed.name, day)
        nothing = landed.schema.to_frame().select(EVENT_COLUMNS)
        frames = [lake.read_part(each, landed, EVENT_COLUMNS) for each in parts]
        return cls(
            sum(each.row_count for each in parts),
            pl.concat([nothing, *frames]),
            lake.read(AGENT_EVENTS, [day], EVENT_COLUMNS),
            lake.read(AGENT_SESSIONS, [day], [*_CONTENT, "session_id"]),
            lake.read(SESSION_PERFORMANCE, [day], _CONTENT),
            lake.read(SESSION_EVALUATIONS, [day]),
            lake.read(SCORECARDS, [day], ["card_id"])["card_id"].to_list(),
        )

    def count_sessions(self) -> SessionCounts:
        return count_sessions(
            self.events, self.windows, self.performance, self.evaluations, self.card_ids
        )


def day_books(stores: Stores, day: date, now: datetime) -> DayBooks:
    """Make the books of a day from its tables and the ledger; nothing is written.

    The caller must keep builds of the day away.

    Raises:
        LakeError: a table cannot be read.
        ProfileError: an evaluation names a profile that the ledger does not know.
        LedgerError: the ledger cannot be used.
    """
    tables = _Tables.read(stores, day)
    # After the parts: whatever landed before they were read has touched the date.
    touched = RebuildQueue(stores.ledger).get(day)
    waiting = None if touched is None or touched.is_built else touched
    scorings = _scorings(stores, day)
    present = tables.evaluations.join(tables.windows, on=_CONTENT, how="semi")
    sessions = book_rows(present, bookings(stores, day, present, now), scorings)
    vanished = scorings.join(tables.windows, on=_SESSION, how="anti")
    return DayBooks(
        day,
        now,
        sessions,
        equations(
            _filed(stores, now, tables.filed, waiting),
            count_events(tables.landed, tables.events),
            tables.count_sessions(),
            count_states(sessions),
            Scorings(_number(scorings), _number(sessions), _number(vanished)),
        ),
        unattributed_counts(stores, day, now, _number(vanished)),
        _sum_or_unknown(scorings["judge_cost_usd"]),
        None if waiting is None else _why_it_waits(waiting),
    )


def _filed(stores: Stores, now: datetime, of_date: int, waiting: QueuedDate | None) -> IngestTotals:
    first, last = stores.settings.start_date, now.date()
    balance = IngestBatches(stores.ledger).balance(AGENT_EVENTS_LANDED.name, first, last)
    # What a date that was given up waits for is never built: that is no balance.
    is_due = waiting is not None and not waiting.parked
    return IngestTotals(balance.counted, balance.within, balance.outside, of_date, is_due)


def _scorings(stores: Stores, day: date) -> pl.DataFrame:
    rows = [
        (each.organization_id, each.session_key, each.scorings, each.cost_usd)
        for each in ScoreStore(stores.ledger).by_window(day)
    ]
    return pl.DataFrame(rows, schema=SCORINGS, orient="row")


def _number(scorings: pl.DataFrame) -> int:
    return int(scorings["scorings"].sum())


def _sum_or_unknown(costs: pl.Series) -> float | None:
    return None if costs.null_count() else float(costs.sum())


def _why_it_waits(date: QueuedDate) -> str:
    state = "parked after failed builds" if date.parked else "due to be built"
    return f"{state}: {date.last_error}" if date.last_error else state
