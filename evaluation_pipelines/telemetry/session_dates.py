"""Assign events to their session and its ``session_date``.

An event belongs to the UTC day on which its session began. The first ingested event of a session
decides the date, and the ledger stores it. Later events go to the same partition, so downstream
code need not read neighboring days. Spans come in any order: a session with spans is of the day of
its earliest event, and moves if an earlier one comes (``late_parents``). All records of a session
id share one date, whichever organization they name: a build can then tell whose the nameless ones
are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, TEXTS, Table
from evaluation_pipelines.storage.parts import BUCKET, NewPart, buckets_of
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION, shared_date
from evaluation_pipelines.telemetry.domain.subagents import (
    Parent,
    Parents,
    Session,
    SessionStart,
    contested_traces,
    named_parents,
    session_of,
)

if TYPE_CHECKING:  # the stateless command needs no ledger, which is slow to import
    from evaluation_pipelines.storage.lake import Lake
    from evaluation_pipelines.storage.ledger.ledger import Ledger

Dates = dict[str, dict[str, date]]
"""session_id -> organization_id or ANY_ORGANIZATION -> session_date."""


@dataclass(frozen=True, slots=True)
class DatedEvents:
    """Events with their ``session_date``, and sessions seen for the first time.

    ``out_of_range`` counts events of sessions that began before the first partition.
    """

    events: pl.DataFrame
    new_sessions: tuple[SessionStart, ...]
    out_of_range: int


def assign_session_dates(
    events: pl.DataFrame, ledger: "Ledger | None", start_date: date
) -> DatedEvents:
    """Set the column ``session_date``, and file the work of sub-agents and traces.

    Args:
        events: EVENTS_WITH_TEXTS in the order read.
        ledger: Source of known session dates; None without a ledger (the stateless command).
        start_date: First partition; sessions that began earlier are assigned to it.
    """
    known = _Known.of(ledger, events)
    events = known.parents.file(events)
    keyed = events.with_columns(organization=pl.col("organization_id").fill_null(ANY_ORGANIZATION))
    # The session itself rules, where its sub-agents came first.
    is_own = pl.col("subagent_session_id").is_null()
    first_own = pl.coalesce(pl.col("event_time").filter(is_own).first(), pl.first("event_time"))
    has_spans = pl.col("trace_id").is_not_null().any()
    firsts = keyed.group_by("organization", "session_id", maintain_order=True).agg(
        first_own, pl.min("event_time").alias("earliest"), has_spans.alias("has_spans")
    )
    new_sessions: list[SessionStart] = []
    for organization, session_id, first_time, earliest, has_spans in firsts.iter_rows():
        dates = known.dates.setdefault(session_id, {})
        first = earliest if has_spans else first_time
        is_new = organization not in dates
        if is_new:
            shared = shared_date(organization, session_id, dates)
            dates[organization] = shared or max(first.date(), start_date)
        day, key = dates[organization], session_of(organization, session_id)
        seen, parent = known.seen.get(key), known.parent(key)
        may_move = (seen is None or earliest < seen or has_spans) and (
            max(min(earliest, seen or earliest).date(), start_date) < day
        )
        if is_new or may_move:
            new_sessions.append(
                SessionStart(organization, session_id, day, earliest, *parent, unfiled=may_move)
            )
    dated = keyed.drop("session_date").join(
        _dates_frame(known.dates),
        on=["organization", "session_id"],
        how="left",
        maintain_order="left",
    )
    early = (dated["session_date"] == start_date) & (dated["event_time"].dt.date() < start_date)
    new_sessions += known.new_children(dated)
    return DatedEvents(dated.select(events.columns), tuple(new_sessions), int(early.sum()))


def write_events(lake: "Lake", events: pl.DataFrame, name: str) -> Iterator[NewPart]:
    """Write dated events, and their texts apart, as new parts per date, sorted by bucket.

    The parts are not yet in the manifest.

    Raises:
        LakeError: a part cannot be written.
    """
    bucketed = events.with_columns(buckets_of(events["session_id"]))
    in_order = bucketed.sort("session_date", BUCKET, maintain_order=True)
    for table in (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED):
        rows, start = landed_rows(in_order, table), 0
        for height, day in rows["session_date"].rle().struct.unnest().iter_rows():
            yield lake.write_part(rows.slice(start, height), table, day, name)
            start += height


def landed_rows(events: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the rows of AGENT_EVENTS_LANDED or EVENT_TEXTS_LANDED, in the order given.

    Args:
        events: EVENTS_WITH_TEXTS with ``session_date`` and ``bucket``.
        table: The table.
    """
    rows = events.select(table.schema.names())
    if table is EVENT_TEXTS_LANDED:
        rows = rows.filter(pl.any_horizontal(pl.col(TEXTS).is_not_null()))
    return rows


@dataclass(frozen=True, slots=True)
class _Known:
    """Dates and parents of the sessions of some events, as far as they are known before.

    ``seen`` has the times of first events, ``stored`` the parents, of which the ledger knows.
    ``contested`` are traces whose parent the ingest finds at its end.
    """

    dates: Dates
    parents: Parents
    seen: Mapping[Session, datetime]
    stored: Mapping[Session, Parent]
    contested: Collection[Session] = ()

    @classmethod
    def of(cls, ledger: "Ledger | None", events: pl.DataFrame) -> "_Known":
        named = named_parents(events)
        if ledger is None or events.is_empty():
            return cls({}, Parents.of({}, named), {}, {})
        ids = events.select("session_id", "subagent_session_id").unique()
        starts = read_starts(
            ledger, {session_id for row in ids.rows() for session_id in row if session_id}
        )
        stored = stored_parents(starts)
        seen = dict[Session, datetime]()
        for start in starts:
            key = session_of(start.organization_id, start.session_id)
            seen[key] = min(start.first_event_time, seen.get(key, start.first_event_time))
        parents = Parents.of(stored, named)
        contested = contested_traces(events, stored, parents.found)
        return cls(_dates_of(starts), parents, seen, stored, contested)

    def parent(self, key: Session) -> tuple[str | None, str | None]:
        """Return the stored parent of a session, which may be in a circle with it."""
        return self.stored.get(key) or (None, None)

    def new_children(self, dated: pl.DataFrame) -> Iterator[SessionStart]:
        """Yield the starts of sub-agents and traces, so that later events are filed like them.

        One that has landed before keeps its date, and gets a parent.
        """
        children = dated.filter(pl.col("subagent_session_id").is_not_null()).unique(
            ["organization", "subagent_session_id"], keep="first", maintain_order=True
        )
        names = ("organization", "subagent_session_id", "session_date", "event_time")
        for organization, child, day, time in children.select(names).iter_rows():
            known, key = self.dates.get(child, {}), session_of(organization, child)
            parent = self.parents.found.get(key)
            is_contested = key in self.contested
            is_same = organization in known and parent == self.stored.get(key)
            if parent is None or (is_same and not is_contested):
                continue
            shared = known.get(organization) or shared_date(organization, child, known)
            for owner in {organization} | (known.keys() if key[0] == "" else set()):
                unfiled = bool(known) or is_contested
                yield SessionStart(owner, child, shared or day, time, *parent, unfiled=unfiled)


def read_starts(ledger: "Ledger", session_ids: Collection[str]) -> list[SessionStart]:
    """Return the starts of some session ids, and of the sessions that they are filed under."""
    from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex

    index, found, wanted = SessionIndex(ledger), list[SessionStart](), set(session_ids)
    seen = set[str]()
    while wanted:
        more, seen = index.starts(wanted), seen | wanted
        found += more
        wanted = {start.parent_session_id for start in more if start.parent_session_id} - seen
    return found


def stored_parents(starts: Iterable[SessionStart]) -> dict[Session, Parent]:
    """Return the parents of sub-agents and traces by their starts."""
    return {
        session_of(start.organization_id, start.session_id): (
            start.parent_session_id,
            start.named_by,
        )
        for start in starts
        if start.parent_session_id is not None
    }


def _dates_of(starts: Iterable[SessionStart]) -> Dates:
    dates: Dates = {}
    for start in starts:
        dates.setdefault(start.session_id, {})[start.organization_id] = start.session_date
    return dates


def _dates_frame(known: Dates) -> pl.DataFrame:
    return pl.DataFrame(
        [(org, session, day) for session, dates in known.items() for org, day in dates.items()],
        schema={"organization": pl.String, "session_id": pl.String, "session_date": pl.Date},
        orient="row",
    )
