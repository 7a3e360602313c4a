"""Assign events to their session and its ``session_date``.

An event belongs to the UTC day on which its session began. The first ingested event of a session
decides the date, and the ledger stores it. Later events go to the same partition, so downstream
code need not read neighboring days. All records of a session id share one date, whichever
organization they name: a build can then tell whose the nameless ones are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, TEXTS, Table
from evaluation_pipelines.storage.buckets import BUCKET, buckets_of
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION, shared_date
from evaluation_pipelines.telemetry.domain.subagents import (
    Parents,
    Session,
    named_parents,
    session_of,
)
from evaluation_pipelines.telemetry.ledger.records import SessionStart

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
    """Set the column ``session_date``, and file the work of sub-agents under their parents.

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
    first_time = pl.coalesce(pl.col("event_time").filter(is_own).first(), pl.first("event_time"))
    firsts = keyed.group_by("organization", "session_id", maintain_order=True).agg(first_time)
    new_sessions: list[SessionStart] = []
    for organization, session_id, first_time in firsts.iter_rows():
        dates = known.dates.setdefault(session_id, {})
        if organization not in dates:
            shared = shared_date(organization, session_id, dates)
            day = dates[organization] = shared or max(first_time.date(), start_date)
            new_sessions.append(SessionStart(organization, session_id, day, first_time))
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

    What the ledger knows as a session of its own stays one: its first events have been filed.
    """

    dates: Dates
    parents: Parents

    @classmethod
    def of(cls, ledger: "Ledger | None", events: pl.DataFrame) -> "_Known":
        named = named_parents(events)
        if ledger is None or events.is_empty():
            return cls({}, Parents(named))
        from evaluation_pipelines.telemetry.ledger.session_index import SessionIndex

        dates: Dates = {}
        stored: dict[Session, str | None] = {}
        columns = events.select("session_id", "subagent_session_id").unique()
        wanted = {each for row in columns.iter_rows() for each in row if each is not None}
        while wanted:
            found = SessionIndex(ledger).starts(wanted)
            for each in found:
                dates.setdefault(each.session_id, {})[each.organization_id] = each.session_date
                if each.organization_id != ANY_ORGANIZATION:
                    key = session_of(each.organization_id, each.session_id)
                    stored[key] = stored.get(key) or each.parent_session_id
            parents = {each.parent_session_id for each in found} - {None}
            wanted = {each for each in parents if each is not None and each not in dates}
        return cls(dates, Parents({**named, **stored}))

    def new_children(self, dated: pl.DataFrame) -> Iterator[SessionStart]:
        """Yield the starts of sub-agents, so that their later events are filed in the same way."""
        children = dated.filter(pl.col("subagent_session_id").is_not_null()).unique(
            ["organization", "subagent_session_id"], keep="first", maintain_order=True
        )
        names = ("organization", "subagent_session_id", "session_date", "event_time", "session_id")
        for row in children.select(names).iter_rows():
            start = SessionStart(*row)
            if start.organization_id not in self.dates.get(start.session_id, {}):
                yield start


def _dates_frame(known: Dates) -> pl.DataFrame:
    return pl.DataFrame(
        [(org, session, day) for session, dates in known.items() for org, day in dates.items()],
        schema={"organization": pl.String, "session_id": pl.String, "session_date": pl.Date},
        orient="row",
    )
