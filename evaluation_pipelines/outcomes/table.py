"""The daily table of outcomes, and its changes by late ones."""

from collections.abc import Sequence
from datetime import date

import polars as pl

from evaluation_pipelines.outcomes.domain.telemetry import telemetry_outcomes
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
)
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.sessions.session_queries import query_tool_calls
from evaluation_pipelines.sessions.session_tables import rows_by_date, text_files
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.lock import BUILD, LockTimeoutError, held
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore

_TELEMETRY = pl.col("source") == "telemetry"


def session_outcomes(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the outcomes of the batch, from telemetry and late ones."""
    stores, days, calls = batch.stores, batch.days, batch.tool_calls
    if calls is None:
        texts = text_files(stores.lake, days)
        calls = query_tool_calls(stores.lake.files(AGENT_EVENTS, days), texts)
    own = telemetry_outcomes(calls, stores.settings.test_commands)
    rows = rows_by_date(pl.concat([own, _late(stores, days)]).sort(SESSION_OUTCOMES.order), days)
    return {day: _built(rows[day]) for day in days}


def _built(rows: pl.DataFrame) -> BuiltPartition:
    return BuiltPartition(SESSION_OUTCOMES, rows, (keys_are_unique(rows, SESSION_OUTCOMES),))


def write_late(stores: Stores) -> list[date]:
    """Write and return the dates whose late outcomes have changed.

    Sessions and scores are not built again. A date in a build waits for the next
    call.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    store, written = OutcomeStore(stores.ledger), list[date]()
    queued = store.queued()
    known = set(stores.lake.partitions(AGENT_SESSIONS)) if queued else set[date]()
    for day, version in queued.items():
        try:
            with held(stores.ledger, f"{BUILD}{day}") as hold:
                if day in known:
                    kept = stores.lake.read(SESSION_OUTCOMES, [day], where=_TELEMETRY)
                    rows = pl.concat([kept, _late(stores, [day])]).sort(SESSION_OUTCOMES.order)
                    stores.lake.write(rows, SESSION_OUTCOMES, day, hold)
                    written.append(day)
        except LockTimeoutError:
            continue
        store.mark_written(day, version)
    return written


def _late(stores: Stores, days: Sequence[date]) -> pl.DataFrame:
    """Return the late outcomes of the windows of some dates: one of a session is of all of them."""
    late = OutcomeStore(stores.ledger).of_dates(days)
    columns = [*SESSION_KEY, "session_id", "session_date"]
    windows = stores.lake.read(AGENT_SESSIONS, days, columns)
    named = pl.col("session_key") != ""
    of_all = (
        late.filter(~named).drop("session_key").join(windows, on=["organization_id", "session_id"])
    )
    of_one = late.filter(named).join(windows, on=[*SESSION_KEY, "session_id"])
    columns = SESSION_OUTCOMES.schema.names()
    rows = pl.concat([of_one.select(columns), of_all.select(columns)])
    # Of a window and of all, the one of the window.
    once = rows.unique(SESSION_OUTCOMES.key, keep="first", maintain_order=True)
    return once.with_columns(pl.col("reference").replace("", None))
