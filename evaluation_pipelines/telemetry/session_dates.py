"""Assign events to a ``session_date``.

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
    """Set the column ``session_date``.

    Args:
        events: EVENTS_WITH_TEXTS in the order read.
        ledger: Source of known session dates; None without a ledger (the stateless command).
        start_date: First partition; sessions that began earlier are assigned to it.
    """
    keyed = events.with_columns(organization=pl.col("organization_id").fill_null(ANY_ORGANIZATION))
    firsts = keyed.group_by("organization", "session_id", maintain_order=True).agg(
        pl.col("event_time").first()
    )
    known = _known_dates(ledger, firsts)
    new_sessions: list[SessionStart] = []
    for organization, session_id, first_time in firsts.iter_rows():
        dates = known.setdefault(session_id, {})
        if organization not in dates:
            shared = shared_date(organization, session_id, dates)
            day = dates[organization] = shared or max(first_time.date(), start_date)
            new_sessions.append(SessionStart(organization, session_id, day, first_time))
    dated = keyed.drop("session_date").join(
        _dates_frame(known), on=["organization", "session_id"], how="left", maintain_order="left"
    )
    early = (dated["session_date"] == start_date) & (dated["event_time"].dt.date() < start_date)
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


def _known_dates(ledger: "Ledger | None", firsts: pl.DataFrame) -> Dates:
    if ledger is None or firsts.is_empty():
        return {}
    from evaluation_pipelines.telemetry.ledger.session_index import SessionIndex

    known = SessionIndex(ledger).dates_by_session_id(firsts["session_id"].unique().to_list())
    return {session_id: dict(dates) for session_id, dates in known.items()}


def _dates_frame(known: Dates) -> pl.DataFrame:
    return pl.DataFrame(
        [(org, session, day) for session, dates in known.items() for org, day in dates.items()],
        schema={"organization": pl.String, "session_id": pl.String, "session_date": pl.Date},
        orient="row",
    )
