"""Failures of dates, and the entries of dates in the rebuild queue."""

from datetime import UTC, date, datetime
from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.storage.ledger.tables.telemetry import TOUCHED_DATES
from evaluation_pipelines_tests.defs.code_location import day
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world.lake_files import root_of


def queued_dates(workplace: Workplace) -> dict[date, QueuedDate]:
    """Return all entries of the rebuild queue by date."""
    return {row.session_date: row for row in RebuildQueue(workplace.ledger).all()}


def landed_part(workplace: Workplace, number: int) -> Path:
    """Return the file of the first landed part of a day."""
    parts = Manifest(workplace.ledger).current(AGENT_EVENTS_LANDED.name, day(number))
    return root_of(workplace.lake) / parts[0].path


def break_landed(workplace: Workplace, number: int) -> bytes:
    """Damage the landed part of a day, and return its former content."""
    path = landed_part(workplace, number)
    content = path.read_bytes()
    path.write_bytes(b"no Parquet at all")
    return content


def repair_landed(workplace: Workplace, number: int, content: bytes) -> None:
    """Restore the landed part of a day."""
    landed_part(workplace, number).write_bytes(content)


def fail_builds(workplace: Workplace, number: int, times: int = 1) -> None:
    """Record failed builds of a day now."""
    version = queued_dates(workplace)[day(number)].version
    for _ in range(times):
        RebuildQueue(workplace.ledger).mark_failed(day(number), version, "torn", datetime.now(UTC))


def let_time_pass(workplace: Workplace) -> None:
    """Make dates that wait for a retry due now."""
    waiting = TOUCHED_DATES.c.next_attempt_at.is_not(None)
    # Not earlier: a run that began after that time would count as one that recorded no failure.
    due = sa.update(TOUCHED_DATES).where(waiting).values(next_attempt_at=datetime.now(UTC))
    with workplace.ledger.engine.begin() as connection:
        connection.execute(due)
