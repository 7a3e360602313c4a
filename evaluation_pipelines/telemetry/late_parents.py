"""Sub-agents whose parent was named after some of their events had landed.

Those events are filed under the parent before their date is built. If the parent is of another date
they stay a session of its own, which the books name.
"""

import uuid
from collections.abc import Sequence
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, Table
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import BUCKET, Part, buckets_of
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.subagents import Parents, SessionStart, session_of
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines.telemetry.session_dates import read_starts, stored_parents


def children_by_date(stores: Stores) -> dict[date, set[str]]:
    """Return the session ids of all sub-agents, by their date."""
    found: dict[date, set[str]] = {}
    for each in SessionIndex(stores.ledger).children():
        found.setdefault(each.session_date, set()).add(each.session_id)
    return found


def file_late_children(stores: Stores, day: date, children: set[str], now: datetime) -> None:
    """File events of a date that landed before the parent of their sub-agent was named.

    Args:
        stores: Lake and ledger.
        day: The date, which the caller has locked.
        children: The session ids of its sub-agents.
        now: The current time.

    Raises:
        LakeError: A part cannot be read or written.
    """
    is_late = pl.col("session_id").is_in(sorted(children))
    if not children or all(
        stores.lake.read(table, [day], ["session_id"], is_late).is_empty()
        for table in (EVENT_TEXTS_LANDED, AGENT_EVENTS_LANDED)
    ):
        return
    parents = _parents_on(day, read_starts(stores.ledger, children))
    # The texts first: without them, their events would not be found again.
    for table in (EVENT_TEXTS_LANDED, AGENT_EVENTS_LANDED):
        for part in Manifest(stores.ledger).current(table.name, day):
            _file(stores, table, part, parents, now)


def _parents_on(day: date, starts: Sequence[SessionStart]) -> Parents:
    """Return the sessions under which sub-agents are filed, as far as these are of the date."""
    stored = stored_parents(starts)
    here = {
        session_of(each.organization_id, each.session_id)
        for each in starts
        if each.session_date == day
    }
    found = {}
    for organization, session_id in stored:
        root = Parents(stored).root_of(organization, session_id)
        if session_of(organization, root) in here:
            found[organization, session_id] = root
    return Parents(found)


def _file(stores: Stores, table: Table, part: Part, parents: Parents, now: datetime) -> None:
    before = stores.lake.read_part(part, table, ["organization_id", "session_id"])
    if parents.file(before).equals(before):
        return
    filed = parents.file(stores.lake.read_part(part, table))
    bucketed = filed.with_columns(buckets_of(filed["session_id"])).sort(BUCKET, maintain_order=True)
    name = f"filed-{part.part_id}-{uuid.uuid4().hex[:8]}"
    new = stores.lake.write_part(bucketed, table, part.session_date, name)
    Manifest(stores.ledger).replace([part.part_id], new, now)
