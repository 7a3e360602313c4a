"""Books of a day: every session in one state, every event in one place.

They are written as a daily table, and computed for one day on request.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.judging.domain.due import DueState, Window, due_state
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.domain.book_states import (
    Booking,
    book,
    title_of,
)
from evaluation_pipelines.reporting.domain.books import (
    EVENT_COLUMNS,
    EVERY_EVENT,
    OF_SPANS,
    SCORINGS,
    Counts,
    DayBooks,
    Unattributed,
    book_rows,
    books_balance,
    count_events,
    count_sessions,
    count_states,
    equations,
)
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    CONTENT_KEY,
    EVALUATION_BOOKS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.schemas.table import EXAMPLES, keys_are_unique
from evaluation_pipelines.sessions.domain.checks import only_attributed, senders
from evaluation_pipelines.sessions.session_queries import NEEDS_ALL, SIGNAL_COLUMNS, put_together
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.lock import BUILD, LockTimeoutError, held
from evaluation_pipelines.storage.parts import shards
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.organizations import with_organizations
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches

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
    """What the tables of a day in the lake say.

    Attributes:
        counts: How the tables agree; ``of_date`` is the number of landed events in the manifest.
        windows: Session windows with their content.
        silent: Ids of sessions that sent masques only.
        subagents: Number of sessions whose events are filed under the one that started them.
    """

    counts: Counts
    windows: pl.DataFrame
    silent: list[str]
    subagents: int

    @classmethod
    def read(cls, stores: Stores, days: Sequence[date]) -> dict[date, "ComparedTables"]:
        """Read the tables of some dates; events of one shard at a time."""
        lake = stores.lake
        filed = lake.parts(AGENT_EVENTS_LANDED, days)
        counts = {
            day: Counts(
                Counter(of_date=sum(part.row_count for part in filed if part.session_date == day))
            )
            for day in days
        }
        sent: dict[date, list[pl.DataFrame]] = {day: [] for day in days}
        silent: dict[date, list[str]] = {day: [] for day in days}
        subagents = dict.fromkeys(days, 0)
        for shard in shards(stores.settings.shards):
            names = list(dict.fromkeys(("session_date", *SIGNAL_COLUMNS, *EVENT_COLUMNS)))
            rows = lake.of(shard).read(AGENT_EVENTS_LANDED, days, names)
            if rows.select(NEEDS_ALL.any()).item():
                names = AGENT_EVENTS.schema.names()
                rows = lake.of(shard).read(AGENT_EVENTS_LANDED, days, names)
            landed = {
                day: put_together(row)
                for day, row in rows_by_date(with_organizations(rows), days).items()
            }
            columns = [*EVENT_COLUMNS, "subagent_session_id"]
            for day, events in _by_date(lake.of(shard), AGENT_EVENTS, days, columns).items():
                subagents[day] += events["subagent_session_id"].drop_nulls().n_unique()
                counts[day] += count_events(landed[day].events, events, landed[day].dropped)
                sent[day].append(senders(events))
                silent[day] += only_attributed(events)
        windows = _by_date(lake, AGENT_SESSIONS, days, (*CONTENT_KEY, "session_id"))
        performance = _by_date(lake, SESSION_PERFORMANCE, days, CONTENT_KEY)
        evaluations = _by_date(lake, SESSION_EVALUATIONS, days, (*CONTENT_KEY, "card_id"))
        cards = _by_date(lake, SCORECARDS, days, ["card_id"])
        for day in days:
            counts[day] += count_sessions(
                pl.concat(sent[day]),
                windows[day],
                performance[day],
                evaluations[day],
                cards[day]["card_id"].to_list(),
            )
        return {day: cls(counts[day], windows[day], silent[day], subagents[day]) for day in days}


def _by_date(
    lake: Lake, table: Table, days: Sequence[date], columns: Sequence[str]
) -> Mapping[date, pl.DataFrame]:
    return rows_by_date(lake.read(table, days, ["session_date", *columns]), days)


def _unattributed(
    stores: Stores,
    day: date,
    of_day: ComparedTables,
    outside: Unattributed,
    gone: tuple[int, int],
) -> Iterator[Unattributed]:
    """Yield counts of what belongs to no session of the day, including zeros.

    Lines without a session have no session date: they count for the day on which they were read.
    ``gone`` are judgments whose windows no longer exist, and erased events.
    """
    midnight = datetime.combine(day, time(), UTC)
    first, silent = stores.settings.start_date, of_day.silent
    read = IngestBatches(stores.ledger).totals(midnight, midnight + timedelta(days=1))
    for number, what, note in (
        (read.unattributed, "events without a session", "they name none"),
        (read.quarantined, "lines or records in quarantine", "quarantine list shows them"),
        (read.unknown_records, "unknown records", "status names them"),
        (read.repeated_records, "records that repeat another one", "known by their agent's form"),
        (read.forgotten, "erased events", "left out"),
    ):
        yield Unattributed(number, what, f"read on this day (UTC). {note}")
    yield outside
    if day == first:
        early = pl.col("event_time") < pl.lit(midnight).cast(UTC_TIME)
        number = stores.lake.read(AGENT_EVENTS, [day], ["event_id"], early).height
        note = f"EVAL_START_DATE is {first}: older events are filed under it"
        yield Unattributed(number, "events older than the first partition", note)
    misspelt = f"their ids may be misspelled: {', '.join(silent[:EXAMPLES])}" if silent else "none"
    yield from (
        Unattributed(
            gone[0],
            "judgments for windows that no longer exist",
            "a later attribution cut their session differently",
        ),
        Unattributed(len(silent), "sessions with a masque that sent nothing else", misspelt),
        Unattributed(
            of_day.subagents,
            "sessions of sub-agents",
            "their events are filed under the session that started them",
        ),
        *(
            Unattributed(number, f"span rows: {reason.removeprefix(OF_SPANS)}", "no events")
            for reason, number in sorted(of_day.counts.numbers.items())
            if reason.startswith(OF_SPANS)
        ),
        Unattributed(gone[1], "events erased", "forgotten or expired"),
    )


def _outside(stores: Stores, now: datetime) -> Unattributed:
    first, last = stores.settings.start_date, now.date()
    dates = [
        part_date
        for part_date in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)
        if not first <= part_date.session_date <= last
    ]
    named = ", ".join(f"{part_date.session_date}" for part_date in dates)
    return Unattributed(
        sum(part_date.rows for part_date in dates),
        "events under days before the start date or after today",
        f"of all telemetry. Kept, and built by hand only: {named}" if dates else "of all telemetry",
    )


Judged = Callable[[Window, str | None, int | None], DueState | None]
"""Window, profile and version -> state for the judge; None where the profile needs none."""


def _bookings(
    windows: Iterable[Window], evaluations: pl.DataFrame, judged: Judged, why_due: str
) -> list[Booking]:
    """Return the state of each row of ``session_evaluations`` of a day, in their order.

    Each row must have its window among ``windows``.

    Raises:
        ProfileError: an evaluation names a profile that the ledger does not know.
    """
    by_key = {window_key(window): window for window in windows}
    found = []
    of_booking = ("profile_id", "profile_version", "card_id", "reason", "excluded_by")
    for row in evaluations.select(*SESSION_KEY, *of_booking).iter_rows(named=True):
        window = by_key[row["organization_id"], row["session_key"]]
        stands = judged(window, row["profile_id"], row["profile_version"])
        found.append(book(window, row, stands, why_due))
    return found


def _why_due(settings: Settings) -> str:
    """Return why due sessions are not judged: no judge, or limits that are set or missing."""
    told = settings.why_no_automatic_judging or f"limits: {settings.judge_limits}"
    return settings.why_no_judge or f"due: no judge run has scored it yet ({told})"


def _judged(stores: Stores, registry: Registry, day: date, now: datetime) -> Judged:
    """Return a function that knows the judge's earlier attempts of the day."""
    past = ScoreStore(stores.ledger).past([day])
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


ReadTables: TypeAlias = Callable[[Stores, Sequence[date]], Mapping[date, ComparedTables]]


def books_of(
    stores: Stores, days: Sequence[date], now: datetime, read: ReadTables = ComparedTables.read
) -> dict[date, DayBooks]:
    """Make the books of some dates from their tables and the ledger; nothing is written.

    The caller must keep builds of the dates away.

    Args:
        stores: The stores.
        days: The dates.
        now: The time as of which they are made.
        read: Returns the tables of dates as they are now.

    Raises:
        LakeError: a table cannot be read.
        ProfileError: an evaluation names a profile that the ledger does not know.
        LedgerError: the ledger cannot be used.
    """
    tables = read(stores, days)
    # After the parts: whatever landed before they were read has touched its date.
    queued = {day: RebuildQueue(stores.ledger).get(day) for day in days}
    waiting = {day: None if on is None or on.is_built else on for day, on in queued.items()}
    first, last = stores.settings.start_date, now.date()
    balance = IngestBatches(stores.ledger).balance(AGENT_EVENTS_LANDED.name, first, last)
    outside = _outside(stores, now)
    scorings = {day: _scorings(stores, day) for day in days}
    sessions = _book_sessions(stores, tables, scorings, now)
    made = {}
    for day, day_tables in tables.items():
        rows, costs = sessions[day], scorings[day]["judge_cost_usd"]
        gone = scorings[day].join(day_tables.windows, on=SESSION_KEY, how="anti")
        vanished = int(gone["scorings"].sum())
        numbers = {
            "counted": balance.counted,
            "within": balance.within,
            "outside": balance.outside,
            "erased": sum(balance.erased.values()),
            "scorings": int(scorings[day]["scorings"].sum()),
            "booked": int(rows["scorings"].sum()),
            "of_vanished": vanished,
        }
        counts = day_tables.counts + Counts(Counter(numbers | count_states(rows)))
        lost = (vanished, balance.erased.get(day, 0))
        made[day] = DayBooks(
            day,
            now,
            rows,
            equations(_with_due(counts, waiting[day])),
            tuple(_unattributed(stores, day, day_tables, outside, lost)),
            None if costs.null_count() else float(costs.sum()),
            _why_it_waits(waiting[day]),
        )
    return made


def _with_due(counts: Counts, waiting: QueuedDate | None) -> Counts:
    """Return counts in which events that no table has wait for a build, if one is due."""
    # What a date that was given up waits for is never built: that is no balance.
    if waiting is None or waiting.parked:
        return counts
    known = {key: example for key, example in counts.examples.items() if key != EVERY_EVENT}
    return Counts(counts.numbers + Counter(ahead=counts.numbers["not_kept"]), known)


def _book_sessions(
    stores: Stores,
    tables: Mapping[date, ComparedTables],
    scorings: Mapping[date, pl.DataFrame],
    now: datetime,
) -> dict[date, pl.DataFrame]:
    """Return the rows of the books of each date, made shard by shard: EVALUATION_BOOKS.

    An evaluation without a window is none of them.
    """
    days = list(tables)
    registry, why_due = ProfileStore(stores.ledger).registry(), _why_due(stores.settings)
    judged = {day: _judged(stores, registry, day, now) for day in days}
    frames: dict[date, list[pl.DataFrame]] = {day: [] for day in days}
    for shard in shards(stores.settings.shards):
        lake = stores.lake.of(shard)
        windows = read_windows(replace(stores, lake=lake), days, now)
        evaluations = rows_by_date(lake.read(SESSION_EVALUATIONS, days), days)
        for day, evaluated in evaluations.items():
            present = evaluated.join(
                tables[day].windows, on=CONTENT_KEY, how="semi", maintain_order="left"
            )
            of_day = (window for window in windows if window.session_date == day)
            booked = _bookings(of_day, present, judged[day], why_due)
            frames[day].append(book_rows(present, booked, scorings[day]))
    return {day: pl.concat(day_frames) for day, day_frames in frames.items()}


def _scorings(stores: Stores, day: date) -> pl.DataFrame:
    rows = [
        (scorings.organization_id, scorings.session_key, scorings.scorings, scorings.cost_usd)
        for scorings in ScoreStore(stores.ledger).by_window(day)
    ]
    return pl.DataFrame(rows, schema=SCORINGS, orient="row")


def _why_it_waits(date: QueuedDate | None) -> str | None:
    if date is None:
        return None
    state = "parked after failed builds" if date.parked else "due to be built"
    return f"{state}: {date.last_error}" if date.last_error else state


CHECKS = (keys_are_unique, books_balance)


def evaluation_books(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the books of the dates of the batch as partitions of their table."""
    table = EVALUATION_BOOKS
    return {
        day: BuiltPartition(
            table,
            books.sessions,
            (keys_are_unique(books.sessions, table), books_balance(books.equations)),
            {f"sessions {title_of(state)}": number for state, number in books.states.items()},
            shown=books.shown(),
        )
        for day, books in books_of(batch.stores, batch.days, batch.now).items()
    }


class BeingBuiltError(LakeError):
    """A day is being built for longer than the caller waits."""


def settled_books(
    stores: Stores,
    day: date,
    now: datetime,
    patience_s: float | None = None,
    read: ReadTables = ComparedTables.read,
) -> DayBooks:
    """Return the books of a day while it is not being built.

    Args:
        stores: The stores.
        day: The day.
        now: The time as of which they are made.
        patience_s: Seconds to wait for a build; by default as long as the settings say.
        read: Returns the tables of dates as they are now.

    Raises:
        BeingBuiltError: another process builds the day for too long.
        LakeError: a table cannot be read.
        ProfileError: an evaluation names a profile that the ledger does not know.
        LedgerError: the ledger cannot be used.
    """
    patience_s = stores.settings.lock_timeout_seconds if patience_s is None else patience_s
    try:
        with held(stores.ledger, f"{BUILD}{day}", timeout_s=patience_s):
            return books_of(stores, [day], now, read)[day]
    except LockTimeoutError as error:
        raise BeingBuiltError(f"{day} is being built: {error}") from error
