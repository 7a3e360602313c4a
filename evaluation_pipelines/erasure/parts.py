"""Parts of the lake rewritten without some of their rows: each date is one commit."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from functools import cache, partial
from io import BytesIO

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.erasure.ledger_rows import ERASED, add_rows, count_erased
from evaluation_pipelines.erasure.selection import ErasureContext, NotForgottenError
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, QUARANTINE, TABLES, Table
from evaluation_pipelines.storage.lake import date_of
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import PARTS
from evaluation_pipelines.storage.lock import BUILD, Hold, LockTimeoutError, held, holders
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.storage.replaced_parts import Change, removed_rows, replace_parts
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import (
    Forgotten,
    names_forgotten,
    session_is_forgotten,
)

_HALF_WRITTEN = timedelta(seconds=60)
_PAUSE_S = 0.5
_PART = PARTS.c


def erase_parts(context: ErasureContext) -> None:
    """Replace all parts that have something of what was forgotten by what is left of them.

    A date that is being built is waited for: its build reads what is being replaced.

    Raises:
        NotForgottenError: Another process builds a date for too long.
        LakeError: A part cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    has_traces = cache(partial(_has_traces, context))  # a part never changes
    current = Manifest(context.stores.ledger).all_tables()
    days = {part.session_date for part in _session_parts(context, current) if has_traces(part)}
    for day in sorted(days, key=lambda day: day or date.min):
        # Parts that were merged meanwhile are looked at again.
        while not _is_erased(context, day, has_traces):
            pass


def _is_erased(
    context: ErasureContext, day: date | None, has_traces: Callable[[Part], bool]
) -> bool:
    """Return True if nothing is left in a partition; else take out what there is."""
    stores = context.stores
    with ExitStack() as locks:
        hold = context.hold if day is None else lock_date(stores, day, locks)
        parts = _session_parts(context, Manifest(stores.ledger).of_date(day))
        found = [part for part in parts if has_traces(part)]
        left = ((part, _without_traces(context, part)) for part in found)

        def count(connection: sa.Connection, changes: Sequence[Change]) -> None:
            gone = removed_rows(changes)
            count_erased(connection, day, gone[AGENT_EVENTS_LANDED.name])
            for table, rows in gone.items():
                add_rows(connection, context.erasure_id, table, rows)

        now = context.clock()
        if not found or replace_parts(stores.ledger, stores.lake, hold, left, now, count) is None:
            return not found
    context.done(str(day or QUARANTINE.name))
    return True


_SESSION = ("organization_id", "session_id", "session_key")
_QUARANTINED = ("path", "reason", "first_bytes")
_REQUESTED_BY = "score_triggered_by"


_TABLES = {
    candidate.name: candidate
    for candidate in TABLES
    if candidate is QUARANTINE or not candidate.schema.keys().isdisjoint(_SESSION[1:])
}
"""Tables with rows of sessions or lines; tables over many sessions are made again."""


def _session_parts(context: ErasureContext, parts: Iterable[Part]) -> list[Part]:
    """Return the parts with rows of sessions, and those of the quarantine that still exist."""
    exists = context.stores.lake.store.exists
    return [
        part
        for part in parts
        if part.table_name in _TABLES and (part.table_name != QUARANTINE.name or exists(part.path))
    ]


def _columns(table: Table) -> list[str]:
    """Return the columns that tell what a row is of."""
    wanted = _QUARANTINED if table is QUARANTINE else (*_SESSION, _REQUESTED_BY)
    return [name for name in wanted if name in table.schema]


def _has_traces(context: ErasureContext, part: Part) -> bool:
    table = _TABLES[part.table_name]
    rows = context.stores.lake.read_part(part, table, _columns(table))
    return not remaining_rows(rows, table, context.forgotten).equals(rows)


def _without_traces(context: ErasureContext, part: Part) -> pl.DataFrame:
    table = _TABLES[part.table_name]
    return remaining_rows(context.stores.lake.read_part(part, table), table, context.forgotten)


def remaining_rows(rows: pl.DataFrame, table: Table, forgotten: Forgotten) -> pl.DataFrame:
    """Return the rows of a table without those of forgotten sessions, and without their names.

    Args:
        rows: With the columns that tell what a row is of; perhaps with others.
        table: Whose rows they are.
        forgotten: What was forgotten.
    """
    if table is QUARANTINE:
        gone = [
            forgotten.has_organization(organization_of(path))
            or names_forgotten(f"{reason} {text}", forgotten)
            for path, reason, text in rows.select(_QUARANTINED).iter_rows()
        ]
        return rows.filter(~pl.Series(gone, dtype=pl.Boolean))
    key = "session_id" if "session_id" in rows.columns else "session_key"
    session = pl.col(key).str.replace(r"#[^#]*$", "") if key == "session_key" else pl.col(key)
    sessions = rows.select("organization_id", session_id=session)
    left = rows.filter(~session_is_forgotten(sessions, forgotten))
    if _REQUESTED_BY not in rows.columns:
        return left
    names = left[_REQUESTED_BY].drop_nulls().unique()
    gone_names = [name for name in names if forgotten.is_named_in(name)]
    return left.with_columns(pl.col(_REQUESTED_BY).replace(dict.fromkeys(gone_names, ERASED)))


def lock_date(stores: Stores, day: date, locks: ExitStack) -> Hold:
    """Keep builds of a date away until ``locks`` is closed.

    Raises:
        NotForgottenError: Another process builds the date for too long.
    """
    seconds = stores.settings.lock_timeout_seconds
    try:
        return locks.enter_context(held(stores.ledger, f"{BUILD}{day}", timeout_s=seconds))
    except LockTimeoutError as error:
        raise NotForgottenError(f"{day} is being built: {error} Then run this again.") from error


def delete_old_files(context: ErasureContext) -> None:
    """Delete superseded parts at once, and what crashes left with something of what was forgotten.

    Builds that began before are waited for. Another reader of an older part gets an error
    once; the next statement reads the new ones.

    Raises:
        NotForgottenError: Another process builds a date for too long.
    """
    stores, manifest = context.stores, Manifest(context.stores.ledger)
    with reading(stores.ledger.engine) as connection:
        query = sa.select(_PART.part_id, _PART.path).where(_PART.superseded_at.is_not(None))
        superseded = {row.part_id: row.path for row in connection.execute(query)}
    building = [holder.name for holder in holders(stores.ledger) if holder.name.startswith(BUILD)]
    for name in building:
        with ExitStack() as locks:
            lock_date(stores, date.fromisoformat(name.removeprefix(BUILD)), locks)
    context.hold.check()
    for path in superseded.values():
        stores.lake.store.delete(path)
    manifest.delete_superseded(superseded)
    for table in _TABLES.values():
        _delete_orphans(context, table)
    deadline = time.monotonic() + _HALF_WRITTEN.total_seconds() + _PAUSE_S
    # What kills left half-written goes a minute later; what is newer then is being written.
    while not stores.lake.store.delete_staged(context.clock() - _HALF_WRITTEN):
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    context.done("older files")


def _delete_orphans(context: ErasureContext, table: Table) -> None:
    """Delete the files of a table that no manifest names if they have traces, or are damaged.

    An ingest that has just written one is refused, and writes it again without them.
    """
    store, manifest = context.stores.lake.store, Manifest(context.stores.ledger)
    listed = [file.path for file in store.list(f"{table.name}/")]
    with reading(context.stores.ledger.engine) as connection:
        known = set(connection.scalars(sa.select(_PART.path).where(_PART.table_name == table.name)))
    for path in (part_id for part_id in listed if part_id not in known):
        with ExitStack() as locks:
            day = date_of(path)
            hold = context.hold if day is None else lock_date(context.stores, day, locks)
            if path in manifest.known_paths(day):  # of a build that has just ended
                continue
            try:
                rows = pl.read_parquet(BytesIO(store.get(path)))
                if remaining_rows(rows, table, context.forgotten).equals(rows):
                    continue
            except FileNotFoundError:
                continue
            except (OSError, pl.exceptions.PolarsError):
                pass  # damaged
            hold.check()
            store.delete(path)
