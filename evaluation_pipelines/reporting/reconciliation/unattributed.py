"""What ingest read on a day that belongs to none of its sessions."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.day import Unattributed
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, UTC_TIME
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches

_READ_ON_DAY = "read on this day (UTC)"


def unattributed_counts(
    stores: Stores, day: date, now: datetime, vanished_scorings: int
) -> tuple[Unattributed, ...]:
    """Return counts of what belongs to no session of the day, including zeros.

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
