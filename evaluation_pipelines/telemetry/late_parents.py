"""Move events that landed before their session was known.

The parent of a sub-agent or the session of a trace may be named late, and a session with spans may
get an event earlier than its date. The ledger flags these sessions, and the ingest files their
events at its end, in one commit.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, TEXT_KEY, Table
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.manifest import Manifest, add_part
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates, touch
from evaluation_pipelines.storage.lock import BUILD, INGEST, Hold, LockTimeoutError, held
from evaluation_pipelines.storage.parts import BUCKET, NewPart, Part, PartOrigin, buckets_of
from evaluation_pipelines.storage.replaced_parts import replace_parts, rows_from
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.domain.spans import TRACE_COLUMNS, trace_sessions
from evaluation_pipelines.telemetry.domain.subagents import (
    BY_ROOT,
    BY_TREE,
    TRACE,
    Parents,
    SessionStart,
    session_of,
)
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    SessionIndex,
    note_filed,
    store_sessions,
)
from evaluation_pipelines.telemetry.session_dates import read_starts, stored_parents

_PATIENCE_S = 10.0
"""A build of a date may take longer: then the events move with the next ingest, or after it."""

_GROUP = ("organization", "session_id", "own")
_ROW = (*TEXT_KEY, "organization_id")
_OWN = pl.coalesce("subagent_session_id", "session_id").alias("own")
_ORGANIZATION = pl.col("organization_id").fill_null(ANY_ORGANIZATION).alias("organization")


def file_late_if_free(stores: Stores, clock: Callable[[], datetime]) -> None:
    """File late events, unless another process ingests: that one does it at its end."""
    if not SessionIndex(stores.ledger).unfiled():
        return
    with suppress(LockTimeoutError), held(stores.ledger, INGEST) as hold:
        file_late(stores, clock(), hold)


def file_late(stores: Stores, now: datetime, ingest: Hold) -> None:
    """Move the events of flagged sessions to their session and date, and queue the dates.

    Dates of a long build are left to the next call.

    Args:
        stores: Lake and ledger.
        now: The current time.
        ingest: The lock of the ingest, so that nothing lands meanwhile.

    Raises:
        LakeError: A part cannot be read or written. Nothing has moved.
        LockLostError: A lock is lost. Nothing has moved.
    """
    flagged = SessionIndex(stores.ledger).unfiled()
    if not flagged:
        return
    plan = _Plan.of(stores, flagged)
    dates = {*plan.moves["session_date"], *plan.moves["new_date"]}
    if not dates:
        with writing(stores.ledger.engine) as connection:
            ingest.check(connection)
            plan.note(connection)
        return
    names = (f"{BUILD}{day}" for day in dates)
    with suppress(LockTimeoutError), held(stores.ledger, *names, timeout_s=_PATIENCE_S) as hold:
        _move(stores, plan, dates, now, (ingest, hold))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Moves of events.

    Attributes:
        parents: Under which session each of the groups is filed.
        moves: Groups that move, by _GROUP and ``session_date``: ``root`` and ``new_date``.
        new: Rows of the session index for sessions that it does not have.
        starts: Its other rows as they are afterwards.
        emptied: Ids of sessions that have no events afterwards.
    """

    parents: Parents
    moves: pl.DataFrame
    new: list[SessionStart]
    starts: list[SessionStart]
    emptied: set[str]

    @classmethod
    def of(cls, stores: Stores, flagged: Collection[SessionStart]) -> "_Plan":
        """Plan the moves of flagged sessions, from their landed events."""
        ids = {start.session_id for start in flagged}
        found = read_starts(stores.ledger, ids)  # with those they are filed under
        named = _named_by_trees(stores, found)
        ids |= {start.parent_session_id for start in named.values() if start.parent_session_id}
        ids |= {start.session_id for start in found}
        groups = _groups(stores, {start.session_date for start in found})
        # A session may get a later date when events leave it.
        left = groups.filter(pl.col("own").is_in(ids))["session_id"]
        groups = groups.filter(pl.col("session_id").is_in(ids | {*left}))
        known = [
            named.get((start.organization_id, start.session_id), start)
            for start in read_starts(stores.ledger, ids | {*groups["session_id"], *groups["own"]})
        ]
        parents = Parents(stored_parents(known))
        filed = _filed(groups, parents, known, stores.settings.start_date)
        expired = [*expired_dates(stores.ledger)]
        # What is left of an expired session would be a second one, of another date.
        dates = ("session_date", "known_date", "new_date")
        stays = pl.any_horizontal(pl.col(dates).is_in(expired))
        filed = filed.with_columns(
            root=pl.when(~stays).then("root").otherwise("session_id"),
            new_date=pl.when(~stays).then("new_date").otherwise("session_date"),
        )
        is_moved = (pl.col("root") != pl.col("session_id")) | (
            pl.col("new_date") != pl.col("session_date")
        )
        return cls(parents, filed.filter(is_moved), *_starts_after(filed, known, ids))

    def note(self, connection: sa.Connection) -> None:
        """Note in the ledger, within the caller's transaction, that all is filed."""
        store_sessions(connection, self.new)
        note_filed(connection, self.starts, self.emptied)


def _named_by_trees(
    stores: Stores, starts: Collection[SessionStart]
) -> dict[tuple[str, str], SessionStart]:
    """Return the contested traces with the parent by all of their spans, by their key."""
    contested = {
        (start.organization_id, start.session_id): start
        for start in starts
        if start.unfiled
        and start.session_id.startswith(TRACE)
        and start.named_by is not None
        and not start.named_by.startswith(BY_ROOT)
    }
    if not contested:
        return {}
    days = sorted({start.session_date for start in starts})
    is_theirs = pl.col("trace_id").is_in([name.removeprefix(TRACE) for _, name in contested])
    rows = stores.lake.read(AGENT_EVENTS_LANDED, days, TRACE_COLUMNS, is_theirs)
    best = trace_sessions(rows.with_columns(organization_id=pl.lit(None, pl.String)))
    sessions = dict(best.select("trace_id", "session_id").iter_rows())
    return {
        key: replace(start, parent_session_id=session, named_by=BY_TREE)
        for key, start in contested.items()
        if (session := sessions.get(start.session_id.removeprefix(TRACE))) is not None
    }


def _groups(stores: Stores, days: Iterable[date]) -> pl.DataFrame:
    """Return _GROUP, ``session_date``, first ``event_time`` and ``has_spans`` of landed events."""
    columns = ["organization_id", "session_id", "subagent_session_id", "event_time", "trace_id"]
    rows = stores.lake.read(AGENT_EVENTS_LANDED, sorted(days), ["session_date", *columns])
    return (
        rows.with_columns(_ORGANIZATION, _OWN)
        .group_by("session_date", *_GROUP)
        .agg(pl.min("event_time"), has_spans=pl.col("trace_id").is_not_null().any())
    )


def _filed(
    groups: pl.DataFrame, parents: Parents, known: Collection[SessionStart], first: date
) -> pl.DataFrame:
    """Return the groups with their ``root``, its date ``new_date`` and its first time."""
    dates = {
        session_of(start.organization_id, start.session_id): start.session_date for start in known
    }
    roots = [
        (root := parents.root_of(organization, own), session_of(organization, root)[0])
        for organization, own in groups.select("organization", "own").iter_rows()
    ]
    keyed = groups.with_columns(
        pl.Series("root", [root for root, _ in roots], pl.String),
        pl.Series("of", [of for _, of in roots], pl.String),
        pl.Series("known_date", [dates.get((of, root)) for root, of in roots], pl.Date).fill_null(
            groups["session_date"]
        ),
    )
    of_root = ("of", "root")
    earliest = pl.col("event_time").min().over(of_root)
    return keyed.with_columns(
        first_time=earliest,
        new_date=pl.when(pl.col("has_spans").any().over(of_root))
        .then(earliest.dt.date().clip(first))
        .otherwise("known_date"),
    )


def _starts_after(
    filed: pl.DataFrame, known: Collection[SessionStart], ids: Collection[str]
) -> tuple[list[SessionStart], list[SessionStart], set[str]]:
    """Return the new and other rows of the session index, and ids of sessions left without events.

    ``ids`` are those of flagged sessions. Those without events are no longer flagged.
    """
    columns = ("organization", "own", "root", "session_id", "new_date", "first_time")
    rows = filed.select(columns).iter_rows()
    indexed = {session_of(start.organization_id, start.session_id) for start in known}
    new = dict[tuple[str, str], SessionStart]()
    after = dict[tuple[str, str], tuple[date, datetime]]()
    before = set[str]()
    for organization, own, root, session_id, day, time in rows:
        before.add(session_id)
        for session in (own, root):
            after[session_of(organization, session)] = (day, time)
        if (key := session_of(organization, root)) not in indexed:
            new[key] = SessionStart(organization, root, day, time)
    starts, emptied = list[SessionStart](), set[str]()
    for session in known:
        key = session_of(session.organization_id, session.session_id)
        if key in after:
            day, time = after[key]
            starts.append(replace(session, session_date=day, first_event_time=time, unfiled=False))
        elif session.session_id in before and session.parent_session_id is None:
            emptied.add(session.session_id)
        elif session.session_id in ids:
            starts.append(replace(session, unfiled=False))
    return [*new.values()], starts, emptied


@dataclass(slots=True)
class _Moved:
    """New parts with events of other dates, and the bytes they were read from."""

    parts: list[tuple[NewPart, list[PartOrigin]]] = field(default_factory=list)


def _move(
    stores: Stores, plan: _Plan, dates: Collection[date], now: datetime, holds: tuple[Hold, Hold]
) -> None:
    """Rewrite the parts of the dates, and make all current by one commit."""
    moved, is_done = _Moved(), False

    def commit(connection: sa.Connection, _: object) -> None:
        for hold in holds:
            hold.check(connection)
        for part, origins in moved.parts:
            add_part(connection, part, origins, now)
        plan.note(connection)
        touch(connection, dates, now)

    left = (row for day in sorted(dates) for row in _remaining_rows(stores, plan, day, moved))
    try:
        is_done = replace_parts(stores.ledger, stores.lake, holds[1], left, now, commit) is not None
    finally:
        for part, _ in moved.parts if not is_done else ():
            stores.lake.store.delete(part.path)


def _remaining_rows(
    stores: Stores, plan: _Plan, day: date, moved: _Moved
) -> Iterator[tuple[Part, pl.DataFrame | None]]:
    """Yield the changed parts of a date, with the rows that stay. Others become new parts."""
    moves = plan.moves.filter(session_date=day).select(*_GROUP, "root", "new_date")
    if moves.is_empty():
        return
    lake, manifest = stores.lake, Manifest(stores.ledger)
    columns = [*_ROW, "session_id", "subagent_session_id"]
    rows = lake.read(AGENT_EVENTS_LANDED, [day], columns).with_columns(_ORGANIZATION, _OWN)
    places = rows.join(moves, on=_GROUP).select(*_ROW, "root", "new_date").unique(_ROW)
    for table in (EVENT_TEXTS_LANDED, AGENT_EVENTS_LANDED):
        for part in manifest.current(table.name, day):
            keys = lake.read_part(part, table, _ROW)
            if keys.join(places, on=_ROW, how="semi", nulls_equal=True).is_empty():
                continue
            filed = _refiled(lake.read_part(part, table), table, places, plan.parents)
            stays = filed.filter(session_date=day)
            for (new_date,), away in (
                filed.filter(pl.col("session_date") != day)
                .partition_by("session_date", as_dict=True)
                .items()
            ):
                name = f"moved-{part.part_id}-{uuid.uuid4().hex[:8]}"
                origins = [
                    replace(origin, row_count=number)
                    for origin in manifest.origins(part.part_id)
                    if (number := rows_from(away, origin))
                ]
                new = lake.write_part(away, table, new_date, name)
                moved.parts.append((new, origins))
            yield part, (None if stays.is_empty() else stays)


def _refiled(
    rows: pl.DataFrame, table: Table, places: pl.DataFrame, parents: Parents
) -> pl.DataFrame:
    """Return the rows of a part with the session and date of their places, sorted by bucket."""
    placed = rows.join(places, on=_ROW, how="left", nulls_equal=True, maintain_order="left")
    is_moved = pl.col("root").is_not_null()
    moved = placed.filter(is_moved)
    if table is AGENT_EVENTS_LANDED:
        moved = parents.file(moved)
    filed = pl.concat(
        [placed.filter(~is_moved), moved.with_columns(session_id="root", session_date="new_date")]
    ).select(rows.columns)
    buckets = buckets_of(filed["session_id"])
    return filed.with_columns(buckets).sort(BUCKET, maintain_order=True)
