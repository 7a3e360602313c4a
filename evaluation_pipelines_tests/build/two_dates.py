"""Two dates with a session each, and builds of them."""

from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path

from evaluation_pipelines.build import DAILY_TABLES, Build
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world.lake_files import root_of

ALL_TABLES = tuple(table.table.name for table in DAILY_TABLES)
FIRST = date(2026, 6, 1)
SECOND = date(2026, 6, 2)


def build(
    workplace: Workplace,
    *dates: date,
    later: timedelta = timedelta(),
    tables: Collection[str] = ALL_TABLES,
) -> list[object]:
    """Build dates, or the pending ones if none are given, at NOW plus ``later``."""
    job = Build(workplace.stores, tables, clock=lambda: NOW + later)
    return list(job.run(dates or job.pending_dates()))


def only_part(workplace: Workplace, day: date) -> Path:
    """Return the file of the only landed part of a date."""
    (part,) = Manifest(workplace.ledger).current(AGENT_EVENTS_LANDED.name, day)
    return root_of(workplace.lake) / part.path
