"""Rows of forgotten sessions in the Parquet files of the lake."""

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from io import BytesIO

import polars as pl

from evaluation_pipelines.build import DAILY_TABLES
from evaluation_pipelines.erasure.context import ErasureContext, NotForgottenError
from evaluation_pipelines.erasure.ledger_rows import (
    Erasures,
    replace_without_rows,
    superseded_parts,
)
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    QUARANTINE,
    Table,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import BUILD, Hold, LockTimeoutError, held, holders
from evaluation_pipelines.storage.parts import Part, PartOrigin, Shard
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import (
    Forgotten,
    is_of_forgotten_session,
    names_forgotten,
)
from evaluation_pipelines.telemetry.received import organization_of

_HALF_WRITTEN = timedelta(seconds=60)
_PAUSE_S = 0.5

LANDED = (EVENT_TEXTS_LANDED, AGENT_EVENTS_LANDED)


def erase_landed(context: ErasureContext) -> None:
    """Replace landed parts and parts of the quarantine by parts without what was forgotten.

    The dates of landed parts are queued for a rebuild. A date that is being built is waited for:
    its books compare its tables with what has landed.

    Raises:
        NotForgottenError: Another process builds a date for too long.
        LakeError: A part cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    for table in (*LANDED, QUARANTINE):
        # Parts that were merged meanwhile are looked at again.
        while not all(_erase_part(context, table, part) for part in _with_rows(context, table)):
            pass


def _with_rows(context: ErasureContext, table: Table) -> list[Part]:
    return [
        part
        for part in Manifest(context.stores.ledger).all_current(table.name)
        if _mask(context.stores, part, table, context.forgotten).any()
    ]


def _erase_part(context: ErasureContext, table: Table, old: Part) -> bool:
    with ExitStack() as locks:
        hold = context.hold
        if old.session_date is not None:
            hold = lock_date(context.stores, old.session_date, locks)
        return _is_replaced(context, hold, table, old)


def _is_replaced(context: ErasureContext, hold: Hold, table: Table, old: Part) -> bool:
    stores, manifest = context.stores, Manifest(context.stores.ledger)
    rows = stores.lake.read_part(old, table)
    kept = rows.filter(~_mask(stores, old, table, context.forgotten))
    name = f"kept-{old.part_id}-{uuid.uuid4().hex[:8]}"
    new = stores.lake.write_part(kept, table, old.session_date, name)
    left = {each: _rows_from(kept, each) for each in manifest.origins(old.part_id)}
    try:
        replace_without_rows(hold, old, new, left, context.erasure_id, context.clock())
    except PartsNotCurrentError:
        stores.lake.store.delete(new.path)
        return False
    context.done(f"{table.name} {old.session_date or ''}".rstrip())
    return True


def _rows_from(rows: pl.DataFrame, origin: PartOrigin) -> int:
    """Return how many rows are from some bytes of a landing file."""
    names = (
        ("file_id", "offset") if "file_id" in rows.columns else ("source_file_id", "source_offset")
    )
    is_from = (pl.col(names[0]) == origin.file_id) & pl.col(names[1]).is_between(
        origin.from_offset, origin.to_offset, closed="left"
    )
    return rows.filter(is_from).height


def _mask(stores: Stores, part: Part, table: Table, forgotten: Forgotten) -> pl.Series:
    """Return for each row of a part whether it is of what was forgotten."""
    if table is QUARANTINE:
        rows = stores.lake.read_part(part, table, ["path", "reason", "first_bytes"])
        named = [
            forgotten.has_organization(organization_of(path))
            or names_forgotten(f"{reason} {text}", forgotten)
            for path, reason, text in rows.iter_rows()
        ]
        return pl.Series(named, dtype=pl.Boolean)
    columns = [
        name for name in ("organization_id", "session_id", "session_key") if name in table.schema
    ]
    rows = stores.lake.read_part(part, table, columns)
    if "session_id" not in table.schema:
        rows = rows.with_columns(session_id=_session_of_key())
    return is_of_forgotten_session(rows, forgotten)


def _session_of_key() -> pl.Expr:
    return pl.col("session_key").str.replace(r"#[^#]*$", "")


def _derived() -> Iterator[Table]:
    """Yield the daily tables that have rows of sessions."""
    for daily in DAILY_TABLES:
        if "session_key" in daily.table.schema or "session_id" in daily.table.schema:
            yield daily.table


def dates_with_rows(context: ErasureContext) -> set[date]:
    """Return the dates of which a daily table has rows of forgotten sessions, or cannot be read."""
    found = set[date]()
    for table in _derived():
        for part in Manifest(context.stores.ledger).all_current(table.name):
            if part.session_date is None or part.session_date in found:
                continue
            try:
                if _mask(context.stores, part, table, context.forgotten).any():
                    found.add(part.session_date)
            except LakeError:  # a build makes it again
                found.add(part.session_date)
    return found


def erase_what_builds_keep(context: ErasureContext) -> None:
    """Take forgotten sessions out of what no build makes again.

    That is scorecards of older content, and dates whose texts or events have expired.

    Raises:
        NotForgottenError: Another process builds a date for too long.
        LakeError: A part cannot be read or written.
    """
    stores = context.stores
    for table in _derived():
        for part in Manifest(stores.ledger).all_current(table.name):
            if part.session_date is None or part.slot is None:
                continue
            if not _mask(stores, part, table, context.forgotten).any():
                continue
            with ExitStack() as locks:
                hold = lock_date(stores, part.session_date, locks)
                rows = stores.lake.read_part(part, table)
                kept = rows.filter(~_mask(stores, part, table, context.forgotten))
                lake = stores.lake.of(Shard(part.first_bucket, part.last_bucket))
                new = lake.stage(kept, table, part.session_date, part.slot)
                Manifest(stores.ledger).switch([new], datetime.now(UTC), hold)
            number = rows.height - kept.height
            Erasures(stores.ledger).add_rows(context.erasure_id, table.name, number)
            context.done(f"{table.name} {part.session_date}")


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
    """Delete superseded parts at once, and what crashes left of dates with erased events.

    Builds that began before are waited for. Whoever else still reads an older part gets an error
    once; the next statement reads the new ones.

    Raises:
        NotForgottenError: Another process builds a date for too long.
    """
    stores = context.stores
    parts = superseded_parts(stores.ledger)
    for day in _dates_being_built(stores):
        with ExitStack() as locks:
            lock_date(stores, day, locks)
    context.hold.check()
    for _, path in parts:
        stores.lake.store.delete(path)
    Manifest(stores.ledger).delete_superseded([part_id for part_id, _ in parts])
    for day in Erasures(stores.ledger).erased_dates():
        with ExitStack() as locks:
            hold = lock_date(stores, day, locks)
            known = Manifest(stores.ledger).known_paths(day)
            for daily in DAILY_TABLES:
                now = context.clock()
                hold.check()
                stores.lake.sweep(daily.table, day, known, now, now - _HALF_WRITTEN)
        for table in LANDED:
            _delete_forgotten_orphans(context, table, day)
    _delete_forgotten_orphans(context, QUARANTINE, None)
    _delete_half_written(context)
    context.done("files of before")


def _dates_being_built(stores: Stores) -> list[date]:
    names = [each.name for each in holders(stores.ledger) if each.name.startswith(BUILD)]
    return [date.fromisoformat(each.removeprefix(BUILD)) for each in names]


def _delete_half_written(context: ErasureContext) -> None:
    """Delete the files that kills left half-written: those that are there now, and stay."""
    deadline = time.monotonic() + _HALF_WRITTEN.total_seconds() + _PAUSE_S
    store = context.stores.lake.store
    while not store.delete_staged(context.clock() - _HALF_WRITTEN):
        if time.monotonic() > deadline:  # the others are newer
            return
        time.sleep(_PAUSE_S)


def _delete_forgotten_orphans(context: ErasureContext, table: Table, day: date | None) -> None:
    """Delete landed files that no manifest names if they have rows of what was forgotten.

    An ingest that has just written one is refused, and writes it again without them.
    """
    stores = context.stores
    folder = stores.lake.folder(table, day)
    listed = [each.path for each in stores.lake.store.list(f"{folder}/")]
    known = Manifest(stores.ledger).known_paths(day)
    for path in (each for each in listed if each not in known):
        try:
            rows = pl.read_parquet(BytesIO(stores.lake.store.get(path)))
        except FileNotFoundError:
            continue
        except (OSError, pl.exceptions.PolarsError):
            is_gone = True
        else:
            is_gone = _orphan_mask(rows, table, context.forgotten)
        if is_gone:
            context.hold.check()
            stores.lake.store.delete(path)


def _orphan_mask(rows: pl.DataFrame, table: Table, forgotten: Forgotten) -> bool:
    if table is QUARANTINE:
        return any(names_forgotten(each or "", forgotten) for each in rows["first_bytes"])
    return bool(is_of_forgotten_session(rows, forgotten).any())
