"""Collect the facts of items, from stores, disk and endpoints, and the addresses of their pages."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

import polars as pl

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.attention.alert_store import (
    RISK_DAYS,
    AlertStore,
    alert_risks,
)
from evaluation_pipelines.attention.domain.arrivals import (
    COST_COLUMNS,
    DAYS,
    EVENT_COLUMNS,
    IS_CHECKED,
    SESSION_COLUMNS,
    arrivals,
    cost_checks,
)
from evaluation_pipelines.attention.domain.item import (
    BEFORE_DAYS,
    BOOKS_DAYS,
    COLUMNS,
    RECENT_DAYS,
    Item,
    Page,
    incomplete_lines,
    outgoing,
    quarantine,
    reviews,
    silent_locks,
    transcripts,
    unscored,
    waiting_dates,
)
from evaluation_pipelines.attention.domain.items import Examined, Facts, rise
from evaluation_pipelines.attention.domain.messages import QUALITY_RISKS, RaisedAlert
from evaluation_pipelines.attention.domain.session_facts import Risks, rises, risks_of
from evaluation_pipelines.attention.machine import answers, settings_items, source_answer
from evaluation_pipelines.evaluations.deliveries import Deliveries, receiver_names
from evaluation_pipelines.judging.ledger.score_queries import spent_today
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    MODEL_REGRESSIONS,
    Table,
)
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews, waiting_samples
from evaluation_pipelines.scorecards.domain.evaluation import is_risk
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.landing import LandingError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.lock import Holder, holders
from evaluation_pipelines.storage.stored_faults import find_damage
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason
from evaluation_pipelines.telemetry.ledger.transcript_reads import TranscriptReads
from evaluation_pipelines.telemetry.quarantine.entries import (
    QuarantineEntry,
    newest_entries,
)
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    has_complete_line,
    unread_since,
)
from evaluation_pipelines.views.sessions import sessions

_Value = TypeVar("_Value")

SOURCE_DAYS = 30
"""A program that was silent for longer is no longer expected to send telemetry."""

_COMPARED_DAYS = RECENT_DAYS + BEFORE_DAYS

RECENT = ("source_cli", "ended_at", *COLUMNS)


class View(Protocol):
    """What a caller sees; each method raises LakeError."""

    @property
    def organization(self) -> str | None:
        """The only organization; ``None`` for all."""

    def recent(self, since: date) -> pl.DataFrame:
        """Return RECENT of the sessions of all organizations since a day."""

    def sessions(self, keys: Collection[str], since: date) -> pl.DataFrame:
        """Return rows of some sessions since a day, as ``withhold`` returns them."""

    def to_review(self) -> int:
        """Return the number of sessions to review blind."""

    def books(self, days: Collection[date]) -> pl.DataFrame:
        """Return ``session_date``, ``state`` and ``sessions`` of the books of some days."""


@dataclass(frozen=True)
class WholeView:
    """All organizations, read from the lake: what the terminal and the alerts see."""

    stores: Stores
    organization: None = None

    def recent(self, since: date) -> pl.DataFrame:
        """Read the sessions of these days."""
        return self.stores.lake.read(AGENT_SESSIONS, self._days(AGENT_SESSIONS, since), RECENT)

    def sessions(self, keys: Collection[str], since: date) -> pl.DataFrame:
        """Read the sessions of these days; scores that await a blind review are withheld."""
        is_one = pl.col("session_key").is_in(sorted(keys))
        days = self._days(AGENT_SESSIONS, since)
        return sessions(self.stores, days, is_one, waiting=self._waiting)

    def to_review(self) -> int:
        """Count the samples without an answer."""
        return len(waiting_samples(self.stores, None))

    def books(self, days: Collection[date]) -> pl.DataFrame:
        """Read the books of these days."""
        known = [
            partition
            for partition in self.stores.lake.partitions(EVALUATION_BOOKS)
            if partition in days
        ]
        books = self.stores.lake.read(EVALUATION_BOOKS, known, ("session_date", "state"))
        return books.group_by("session_date", "state").agg(sessions=pl.len())

    @cached_property
    def _waiting(self) -> frozenset[SessionKey]:
        return BlindReviews(self.stores).waiting()

    def _days(self, table: Table, since: date) -> list[date]:
        return [partition for partition in self.stores.lake.partitions(table) if partition >= since]


def examine(
    stores: Stores,
    now: datetime,
    *,
    asks: bool,
    serves_at: str | None = None,
    counts_rows: bool = False,
    verifies: bool = False,
) -> Examined:
    """Return what takes a while to find out.

    Args:
        stores: The stores.
        now: The time.
        asks: Whether to ask the service, Dagster and the endpoint of the judge if they answer.
        serves_at: Address of the service that asks: it answers.
        counts_rows: Whether to count the rows of a source in ClickHouse.
        verifies: Whether to read every file of the lake, also those that seem unchanged.

    What a damaged file has is left out, and the file is part of the answer.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    readable = _Readable(stores)
    first = now.date() - timedelta(days=DAYS - 1)
    days = [partition for partition in stores.lake.partitions(AGENT_EVENTS) if partition >= first]
    events = readable.rows(AGENT_EVENTS, days, sorted({*EVENT_COLUMNS, *COST_COLUMNS}))
    windows = readable.rows(AGENT_SESSIONS, days, SESSION_COLUMNS)
    is_unseen = bool(readable.errors)
    damage = readable.of(lambda: find_damage(stores, verifies=verifies), dict[str, str]())
    source, late = source_answer(stores) if counts_rows else ((), {})
    asked = answers(stores.settings, serves_at) if asks else ()
    return Examined(
        arrivals=arrivals(events, windows),
        is_unseen=is_unseen,
        costs=cost_checks(events.filter(IS_CHECKED)),
        damage=damage,
        unread=[error for error in readable.errors if error not in damage.values()],
        answers=[*asked, *source],
        late_rows=late,
    )


def gather(
    stores: Stores,
    now: datetime,
    *,
    examined: Examined | None = None,
    view: View | None = None,
    serves_at: str | None = None,
) -> Facts:
    """Return what the list of items is made of.

    Args:
        stores: The stores.
        now: The time.
        examined: What ``examine`` returned; ``None`` to leave it out.
        view: What the caller sees of sessions and books; by default all of it.
        serves_at: Address of the service that asks; ``None`` in a terminal.

    What a damaged file has is left out, and the file is part of the facts.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    view = WholeView(stores) if view is None else view
    readable = _Readable(stores)
    queue, alerts = RebuildQueue(stores.ledger).all(), AlertStore(stores.ledger).all()
    facts = _gather_sent(stores, now, view, readable, queue)
    book_days = frozenset(now.date() - timedelta(days=ago) for ago in range(BOOKS_DAYS + 1))
    found = replace(
        facts,
        examined=examined,
        serves_at=serves_at,
        is_telemetry_ever=bool(stores.lake.partitions(AGENT_EVENTS)),
        alerts=[row for row in alerts if row.ended_at is None],
        risks=readable.of(lambda: _risks(stores, view, alerts), {}),
        others=[
            *facts.others,
            *_quarantine(stores, readable, now.date() - timedelta(days=DAYS - 1)),
            *transcripts(TranscriptReads(stores.ledger).lines()),
            *silent_locks(_at_work(stores), now),
            *_outgoing(stores, now),
            *readable.of(lambda: [*unscored(view.books(book_days))], list[Item]()),
            *reviews(readable.of(view.to_review, 0), has_keys=KeyRing(stores.ledger).has_keys()),
            *settings_items(stores.settings, spent_today(stores.ledger, now)),
        ],
    )
    return replace(found, damage=list(dict.fromkeys([*facts.damage, *readable.errors])))


def gather_sent(stores: Stores, now: datetime) -> Facts:
    """Return the part of ``gather`` from which alerts are sent; raises LedgerError."""
    queue = RebuildQueue(stores.ledger).all()
    return _gather_sent(stores, now, WholeView(stores), _Readable(stores), queue)


def _gather_sent(
    stores: Stores,
    now: datetime,
    view: View,
    readable: "_Readable",
    queue: Sequence[QueuedDate],
) -> Facts:
    files = _landing_files(stores)
    dagster = stores.settings.dagster_url
    regressions = readable.of(lambda: _regressions(stores), None)
    first = now.date() - timedelta(days=max(SOURCE_DAYS, _COMPARED_DAYS))
    recent = readable.of(lambda: view.recent(first), None)
    due = [row for row in queue if not (row.is_built or row.parked)]
    parked = [row for row in queue if row.parked and not row.is_built]
    is_behind = files.have_lines or _are_unbuilt(stores, [*due, *parked], now)
    oldest_due = min((row.touched_at for row in due), default=None)
    facts = Facts(
        now=now,
        unread_bytes=sum(file.unread_bytes for file in files.unread),
        oldest_unread=files.oldest,
        why_not_listed=files.why_not_listed,
        silent=None if is_behind or recent is None else _silent(stores, view, recent, now),
        stale_hours=stores.settings.stale_telemetry_hours,
        due=len(due),
        rises=None if recent is None else _rises(view, recent, now),
        parked=[
            (
                queued_date.session_date,
                queued_date.attempts,
                queued_date.last_error or "unknown error",
            )
            for queued_date in parked
        ],
        regressions=regressions,
        sessions=readable.of(lambda: _named(view, regressions or ()), None),
        dagster_url=None if dagster is None else str(dagster).rstrip("/"),
        others=[
            *incomplete_lines((_incomplete(stores, file) for file in files.incomplete), now),
            waiting_dates(len(due), oldest_due, now),
        ],
    )
    met = filter(None, (queued_date.damage for queued_date in queue))
    facts = replace(facts, damage=list(dict.fromkeys([*met, *readable.errors])))
    return facts if view.organization is None else _of_one_organization(facts)


def _of_one_organization(facts: Facts) -> Facts:
    """Leave out regressions that no session of the organization shows."""
    rows = facts.sessions
    keys = set() if rows is None else set(rows["session_key"])
    shown = [
        regression
        for regression in facts.regressions or ()
        if keys.intersection(regression["worst_sessions"])
    ]
    return replace(facts, regressions=shown)


def _regressions(stores: Stores) -> list[dict[str, object]] | None:
    """Return the models that got worse; ``None`` if an earlier version did not store since when."""
    found = stores.lake.read_whole(MODEL_REGRESSIONS).filter(state="alert").to_dicts()
    return None if any(row["window_since"] is None for row in found) else found


def _named(view: View, regressions: Sequence[dict[str, object]]) -> pl.DataFrame | None:
    """Return the sessions that regressions name."""
    keys = {key for regression in regressions for key in regression["worst_sessions"]}  # type: ignore[attr-defined]
    if not keys:
        return None
    return view.sessions(keys, min(regression["window_since"] for regression in regressions).date())  # type: ignore[type-var,attr-defined]


def _risks(stores: Stores, view: View, alerts: Sequence[RaisedAlert]) -> dict[int, Risks]:
    """Return what is left of each open alert of quality risks, of which there may be many."""
    risky = [
        alert for alert in alerts if alert.ended_at is None and alert.alert.kind == QUALITY_RISKS
    ]
    sessions = alert_risks(stores.ledger, alerts, {alert.alert_id for alert in risky})
    keys = {key for alert_keys in sessions.values() for _, key in alert_keys}
    if not keys:
        return {}
    first = min(alert.raised_at for alert in risky).date() - timedelta(days=RISK_DAYS)
    rows, risk = view.sessions(keys, first), is_risk(ProfileStore(stores.ledger).registry())
    found = dict[int, Risks]()
    for alert_id, alert_keys in sessions.items():
        seen = {key for key in alert_keys if view.organization in {None, key[0]}}
        found[alert_id] = risks_of(rows, seen, risk)
    return found


def _silent(
    stores: Stores, view: View, recent: pl.DataFrame, now: datetime
) -> list[tuple[str, datetime]]:
    """Return the silent agent programs, each with its newest event."""
    limit = now - timedelta(hours=stores.settings.stale_telemetry_hours)
    expected = pl.col("session_date") >= now.date() - timedelta(days=SOURCE_DAYS)
    ends = recent.filter(expected).drop_nulls(["source_cli", "ended_at"])
    newest = ends.group_by("source_cli").agg(pl.max("ended_at"))
    silent = newest.filter(pl.col("ended_at") < limit)
    if view.organization is not None:
        ours = ends.filter(organization_id=view.organization)
        silent = silent.join(ours, on="source_cli", how="semi")
    return silent.sort("source_cli").rows()


def _rises(view: View, recent: pl.DataFrame, now: datetime) -> list[dict[str, Any]]:
    """Return the rises of all agents, as many are looked at, of the organization that is seen."""
    found = rises(recent, now.date())
    return [row for row in found if view.organization in {None, row["organization_id"]}]


def current_rises(view: View, now: datetime) -> list[dict[str, Any]]:
    """Return the rows of ``rises`` that the list has."""
    return _rises(view, view.recent(now.date() - timedelta(days=_COMPARED_DAYS)), now)


def rising_agents(view: View, now: datetime) -> dict[tuple[str, str], list[Item]]:
    """Return the items about agents that the list has: organization and agent -> its items."""
    found = dict[tuple[str, str], list[Item]]()
    for row in current_rises(view, now):
        found.setdefault((row["organization_id"], row["agent_id"]), []).append(rise(row))
    return found


class _LandingFiles(NamedTuple):
    """Landing files with unread bytes.

    Attributes:
        unread: Files with a complete unread line, and those not looked at or not readable.
        incomplete: Files with only an incomplete line.
        have_lines: Whether a file surely has a complete unread line.
        oldest: Since when the unread ones wait, or ``None`` without any.
        why_not_listed: Why the files cannot be listed, or ``None``.
    """

    unread: Sequence[UnreadFile] = ()
    incomplete: Sequence[UnreadFile] = ()
    have_lines: bool = False
    oldest: datetime | None = None
    why_not_listed: str | None = None


def _landing_files(stores: Stores) -> _LandingFiles:
    """Return the landing files with unread bytes.

    The oldest is looked at first: of a backlog only one file is opened.
    """
    try:
        listed, _ = find_unread_files(stores, in_order=False)
        incomplete, have_lines = list[UnreadFile](), False
        for file in sorted(listed, key=lambda unread: unread.file.modified_at_ns):
            is_complete = has_complete_line(stores, file)
            if is_complete:
                have_lines = True
                break
            if is_complete is False:
                incomplete.append(file)
        unread = [file for file in listed if file not in incomplete]
        return _LandingFiles(unread, incomplete, have_lines, unread_since(stores, unread))
    except LandingError as error:
        return _LandingFiles(why_not_listed=str(error))


def _are_unbuilt(stores: Stores, due: Sequence[QueuedDate], now: datetime) -> bool:
    """Return True if a date has newer telemetry than sessions; overrides only change scores.

    A parked date is not retried: it hides silence only as long as its telemetry is recent.
    """
    limit = now - timedelta(hours=stores.settings.stale_telemetry_hours)
    manifest = Manifest(stores.ledger)
    for row in due:
        sessions = manifest.current(AGENT_SESSIONS.name, row.session_date)
        built = max((part.part_id for part in sessions), default=0)
        for part in manifest.current(AGENT_EVENTS_LANDED.name, row.session_date):
            if part.part_id > built and (part.created_at >= limit or not row.parked):
                return True
    return False


def _incomplete(stores: Stores, unread: UnreadFile) -> tuple[str, int, datetime]:
    """Return path, unread bytes and last change of a file without a complete unread line."""
    file = unread.file
    changed_at = datetime.fromtimestamp(file.modified_at_ns / 1e9, UTC)
    return stores.landing.shown(file.path), unread.unread_bytes, changed_at


def _quarantine(stores: Stores, readable: "_Readable", since: date) -> Iterator[Item]:
    """Yield the unreadable lines, with where the newest is and why it could not be read."""
    none = list[QuarantineEntry](), 0
    entries, lines = readable.of(lambda: newest_entries(stores, 1, since), none)
    newest = [
        f"{stores.landing.shown(entry.path)}, byte {entry.offset:,}: {plain_reason(entry.reason)}"
        for entry in entries
    ]
    signals = readable.of(lambda: int(loaded_files(stores)["rejected"].sum()), 0)
    return quarantine(lines, signals, next(iter(newest), None), since)


def _outgoing(stores: Stores, now: datetime) -> Iterator[Item]:
    """Yield the receivers of the settings that do not get evaluations."""
    names = receiver_names(stores.settings)
    if not names:
        return iter(())
    deliveries = Deliveries(stores.ledger)
    states = [
        (state.name, state.failing_since, state.last_error, state.ended_at is not None)
        for state in deliveries.states()
        if state.name in names
    ]
    refused = Counter(
        refusal.receiver for refusal in deliveries.refusals() if refusal.receiver in names
    )
    return outgoing(states, refused, now)


def _at_work(stores: Stores) -> Iterator[tuple[str, str, datetime]]:
    """Yield who holds locks: a build holds several dates at a time."""
    found: dict[str, list[Holder]] = {}
    for holder in holders(stores.ledger):
        found.setdefault(holder.holder_id, []).append(holder)
    for first, *others in found.values():
        lock = first.name if not others else f"{first.name} and {len(others)} more"
        yield lock, f"process {first.process_id} on {first.host}", first.last_progress_at


@dataclass(frozen=True, slots=True)
class _Readable:
    """What can be read although files may be damaged, and these files."""

    stores: Stores
    errors: list[str] = field(default_factory=list)

    def rows(self, table: Table, days: Sequence[date], columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows of the days that can be read."""
        read, none = self.stores.lake.read, table.no_rows.select(columns)
        with suppress(LakeError):
            return read(table, days, columns)
        frames = (self.of(partial(read, table, [day], columns), none) for day in days)
        return pl.concat([none, *frames])

    def of(self, read: Callable[[], _Value], otherwise: _Value) -> _Value:
        """Return what can be read, or something in its place."""
        try:
            return read()
        except LakeError as error:
            self.errors.append(str(error))
            return otherwise


def address_of(page: Page) -> str:
    """Return the path and query of a page of the service, or the URL of one of another server."""
    path = "/".join(quote(part, safe="") for part in page.path)
    query = f"?{urlencode(page.query)}" if page.query else ""
    return f"{page.server}/{path}{query}"
