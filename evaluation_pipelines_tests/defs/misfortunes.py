"""What can go wrong with dates, made to happen, and what the ledger then says of them."""

from datetime import UTC, date, datetime
from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.ledger.tables.telemetry import TOUCHED_DATES
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines_tests.defs.code_location import day
from evaluation_pipelines_tests.workplace import Workplace


def touched(workplace: Workplace) -> dict[date, QueuedDate]:
    """Everything the ledger knows of dates."""
    return {each.session_date: each for each in RebuildQueue(workplace.ledger).all()}


def landed_part(workplace: Workplace, number: int) -> Path:
    """The file of the first landed part of a day."""
    parts = Manifest(workplace.ledger).current(AGENT_EVENTS_LANDED.name, day(number))
    return workplace.lake.root / parts[0].path


def break_landed(workplace: Workplace, number: int) -> bytes:
    """Tear the landed part of a day; gives what it was."""
    path = landed_part(workplace, number)
    sound = path.read_bytes()
    path.write_bytes(b"no Parquet at all")
    return sound


def mend_landed(workplace: Workplace, number: int, sound: bytes) -> None:
    """Give the landed part of a day back."""
    landed_part(workplace, number).write_bytes(sound)


def fail(workplace: Workplace, number: int, times: int = 1) -> None:
    """Note failed builds of a day, just now."""
    version = touched(workplace)[day(number)].version
    for _ in range(times):
        RebuildQueue(workplace.ledger).mark_failed(day(number), version, "torn", datetime.now(UTC))


def let_time_pass(workplace: Workplace) -> None:
    """Make dates that wait for their next attempt due now."""
    waiting = TOUCHED_DATES.c.next_attempt_at.is_not(None)
    # Not earlier: a run that began after it would count as one that noted nothing.
    due = sa.update(TOUCHED_DATES).where(waiting).values(next_attempt_at=datetime.now(UTC))
    with workplace.ledger.engine.begin() as connection:
        connection.execute(due)
