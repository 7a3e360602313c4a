"""Books of a day: every session in one state, every event in one place.

They are written as a daily table, and computed for one day on request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.judging.domain.due import DueState, Window, due_state
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.domain.reconciliation.counts import (
    EVENT_COLUMNS,
    EventCounts,
    SessionCounts,
    count_events,
    count_sessions,
)
from evaluation_pipelines.reporting.domain.reconciliation.day import (
    DayBooks,
    Unattributed,
    count_states,
)
from evaluation_pipelines.reporting.domain.reconciliation.equations import (
    IngestTotals,
    Scorings,
    books_balance,
    equations,
)
from evaluation_pipelines.reporting.domain.reconciliation.rows import SCORINGS, book_rows
from evaluation_pipelines.reporting.domain.reconciliation.states import Booking, Evaluated, book
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    UTC_TIME,
)
from evaluation_pipelines.schemas.table import EXAMPLES, keys_are_unique
from evaluation_pipelines.sessions.domain.checks import only_attributed, senders
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.buckets import shards
from evaluation_pipelines.storage.daily_table import BuiltPartition
from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches

_READ_ON_DAY = "read on this day (UTC)"


def unattributed_counts(
    stores: Stores, day: date, now: datetime, vanished_scorings: int, silent: Sequence[str]
) -> tuple[Unattributed, ...]:
    """Return counts of what belongs to no session of the day, including zeros.

    ``silent`` are the ids of sessions that sent nothing but masques.

    Lines without a session have no session date: they count for the day on which they were read.
    """
    return (
        *_read_on(stores, day),
        *_outside(stores, day, now),
        Unattributed(
            vanished_scorings,
            "scorings of windows that no longer exist",
            "a later attribution cut their session anew",
        ),
        Unattributed(
            len(silent),
            "sessions with a masque that sent nothing else",
            f"their ids may be misspelt: {', '.join(silent[:EXAMPLES])}" if silent else "none",
        ),
    )


def _read_on(stores: Stores, day: date) -> Iterator[Unattributed]:
    midnight = datetime.combine(day, time(), UTC)
    read = IngestBatches(stores.ledger).totals(midnight, midnight + timedelta(days=1))
    for number, what, note in (
        (read.unattributed, "events without a session", "they name none"),
        (read.quarantined, "lines or records in quarantine", "quarantine list shows them"),
        (read.unknown_records, "records that are not understood", "status names them"),
        (read.repeated_records, "records that repeat another one", "known by their agent's form"),
    ):
        yield Unattributed(number, what, f"{_READ_ON_DAY}; {note}")


def _outside(stores: Stores, day: date, now: datetime) -> Iterator[Unattributed]:
    first, last = stores.settings.start_date, now.date()
    dates = [
        each
        for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
        if not first <= each.session_date <= last
    ]
    named = ", ".join(f"{each.session_date}" for each in dates)
    yield Unattributed(
        sum(each.rows for each in dates),
        "events under days outside the partitions' range",
        f"of all telemetry; kept, and built by hand only: {named}" if dates else "of all telemetry",
    )
    if day == first:
        midnight = pl.lit(datetime.combine(first, time(), UTC)).cast(UTC_TIME)
        early = pl.col("event_time") < midnight
        number = stores.lake.read(AGENT_EVENTS, [day], ["event_id"], early).height
        note = f"EVAL_START_DATE is {first}: what is older is filed under it"
        yield Unattributed(number, "events from before the first partition", note)


_EVALUATED = ("profile_id", "card_id", "reason", "excluded_by")


Judged = Callable[[Window, str | None, int | None], DueState | None]
"""Window, profile and version -> state for the judge; None where the profile needs none."""


def bookings(
    stores: Stores, day: date, evaluations: pl.DataFrame, judged: Judged, now: datetime
) -> list[Booking]:
    """Return the state of each row of ``session_evaluations`` of a day, in their order.

    Each row must have its window in the lake of ``stores``.

    Raises:
        ProfileError: an evaluation names a profile that the ledger does not know.
    """
    idle, why_due = stores.settings.session_idle_minutes, _why_due(stores.settings)
    windows = {window_key(each): each for each in read_windows(stores.lake, [day], now, idle)}
    found = []
    for row in evaluations.iter_rows(named=True):
        window = windows[row["organization_id"], row["session_key"]]
        evaluated = Evaluated(*(row[name] for name in _EVALUATED))
        stands = judged(window, row["profile_id"], row["profile_version"])
        found.append(book(window, evaluated, stands, why_due))
    return found


def _why_due(settings: Settings) -> str:
    """Return why due sessions are not judged: no judge, or limits that are set or missing."""
    if settings.why_no_judge is not None:
        return settings.why_no_judge
    why_off, limits = settings.why_no_automatic_judging, settings.judge_limits
    told = why_off or f"limits: {limits}"
    return f"due: no judge run has scored it yet ({told})"


def _judged(stores: Stores, day: date, now: datetime) -> Judged:
    """Return a function that knows the judge's earlier attempts of the day."""
    registry, past = ProfileStore(stores.ledger).registry(), ScoreStore(stores.ledger).past([day])
    model = stores.settings.judge_model or ""

    def judged(window: Window, profile_id: str | None, version: int | None) -> DueState | None:
        if profile_id is None:
            return None
        profile = registry.find(profile_id, version).profile
        if profile.method == "heuristic":
            return None
        key: WindowKey = window_key(window)
        # The words of the rubric matter only to runs that ask for obsolete scores.
        judging = judge_setup(profile, prompt_hash="", model=model)
        return due_state(window, judging, past.get((*key, profile_id), []), now)

    return judged


_SESSION = ["organization_id", "session_key"]
_CONTENT = [*_SESSION, "content_hash"]


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables of a day in the lake.

    ``filed`` is the number of landed events in the manifest, ``senders`` are the sessions that sent
    events, ``silent`` those that sent masques only. Events are counted shard by shard.
    """

    filed: int
    events: EventCounts
    senders: pl.DataFrame
    silent: list[str]
    windows: pl.DataFrame
    performance: pl.DataFrame
    evaluations: pl.DataFrame
    card_ids: list[str]

    @classmethod
    def read(cls, stores: Stores, day: date) -> "_Tables":
        lake = stores.lake
        filed = sum(part.row_count for part in lake.parts(AGENT_EVENTS_LANDED, [day]))
        counts, sent, silent = EventCounts(), [], list[str]()
        for shard in shards(stores.settings.shards):
            landed = lake.of(shard).read(AGENT_EVENTS_LANDED, [day], EVENT_COLUMNS)
            events = lake.of(shard).read(AGENT_EVENTS, [day], EVENT_COLUMNS)
            counts += count_events(landed, events)
            sent.append(senders(events))
            silent += only_attributed(events)
        return cls(
            filed,
            counts,
            pl.concat(sent),
            silent,
            lake.read(AGENT_SESSIONS, [day], [*_CONTENT, "session_id"]),
            lake.read(SESSION_PERFORMANCE, [day], _CONTENT),
            lake.read(SESSION_EVALUATIONS, [day], [*_CONTENT, "card_id"]),
            lake.read(SCORECARDS, [day], ["card_id"])["card_id"].to_list(),
        )

    def count_sessions(self) -> SessionCounts:
        return count_sessions(
            self.senders, self.windows, self.performance, self.evaluations, self.card_ids
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
    sessions = _book_sessions(stores, day, tables.windows, scorings, now)
    vanished = scorings.join(tables.windows, on=_SESSION, how="anti")
    return DayBooks(
        day,
        now,
        sessions,
        equations(
            _filed(stores, now, tables.filed, waiting),
            tables.events,
            tables.count_sessions(),
            count_states(sessions),
            Scorings(_number(scorings), _number(sessions), _number(vanished)),
        ),
        unattributed_counts(stores, day, now, _number(vanished), tables.silent),
        _sum_or_unknown(scorings["judge_cost_usd"]),
        None if waiting is None else _why_it_waits(waiting),
    )


def _book_sessions(
    stores: Stores, day: date, windows: pl.DataFrame, scorings: pl.DataFrame, now: datetime
) -> pl.DataFrame:
    """Return the rows of the books, made shard by shard: EVALUATION_BOOKS.

    An evaluation without a window is none of them.
    """
    judged = _judged(stores, day, now)
    frames = []
    for shard in shards(stores.settings.shards):
        of_shard = replace(stores, lake=stores.lake.of(shard))
        evaluations = of_shard.lake.read(SESSION_EVALUATIONS, [day])
        present = evaluations.join(windows, on=_CONTENT, how="semi", maintain_order="left")
        frames.append(book_rows(present, bookings(of_shard, day, present, judged, now), scorings))
    return pl.concat(frames)


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


CHECKS = (keys_are_unique, books_balance)


def evaluation_books(stores: Stores, day: date, now: datetime) -> BuiltPartition:
    """Return the books of a date as a partition of their table."""
    books, table = day_books(stores, day, now), EVALUATION_BOOKS
    return BuiltPartition(
        table,
        books.sessions,
        (keys_are_unique(books.sessions, table), books_balance(books.equations)),
        {f"sessions {state}": number for state, number in books.states.items()},
        shown=books.shown(),
    )


def settled_books(stores: Stores, day: date, now: datetime) -> DayBooks:
    """Return the books of a day while it is not being built.

    Raises:
        LakeError: a table cannot be read, or another process builds the day for too long.
        ProfileError: an evaluation names a profile that the ledger does not know.
        LedgerError: the ledger cannot be used.
    """
    path = stores.lake.locks / f"build-{day}.lock"
    try:
        with file_lock(path, stores.settings.lease_seconds):
            return day_books(stores, day, now)
    except LockTimeoutError as error:
        raise LakeError(f"{day} is being built: {error}") from error
