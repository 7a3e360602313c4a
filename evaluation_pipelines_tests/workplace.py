"""A whole pipeline on a temporary folder: real landing folder, lake and ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from uuid import uuid4

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    EVENTS_WITH_TEXTS,
    QUARANTINE,
    SESSION_PERFORMANCE,
    TEXT_KEY,
    TEXTS,
    Table,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing, open_landing
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import LEDGER_IDS
from evaluation_pipelines.storage.store import open_store
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.event_texts import read_events_with_texts
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport

NOW = datetime(2026, 12, 1, tzinfo=UTC)
"""Later than all telemetry of the tests."""


@dataclass(frozen=True)
class Workplace:
    """Stores under one folder, and the two steps that fill them."""

    settings: Settings
    landing: Landing
    lake: Lake
    ledger: Ledger

    def with_settings(self, **changes: object) -> "Workplace":
        """Return the same stores with other settings."""
        return replace(self, settings=self.settings.model_copy(update=changes))

    @property
    def stores(self) -> Stores:
        """All of them, as the steps take them."""
        return Stores(self.settings, self.landing, self.lake, self.ledger)

    def land(self, name: str, content: bytes, mode: str = "wb") -> Path:
        """Write (or append to) a file of the landing folder."""
        path = self.landing.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as handle:
            handle.write(content)
        return path

    def ingest(self) -> IngestReport:
        """Read everything new."""
        return Ingest(self.stores, lambda: NOW).run()

    def build(self) -> list[DateBuilt | DateFailed]:
        """Build all dates that are due."""
        job = Build(self.stores, clock=lambda: NOW)
        return job.run(job.pending_dates())

    def landed(self) -> pl.DataFrame:
        """All landed events that the manifest names, with their texts."""
        texts = self._parts(EVENT_TEXTS_LANDED).select(*TEXT_KEY, *TEXTS).unique(TEXT_KEY)
        events = self._parts(AGENT_EVENTS_LANDED)
        joined = events.join(texts, on=TEXT_KEY, how="left", maintain_order="left")
        return joined.select(EVENTS_WITH_TEXTS.names())

    def quarantined(self) -> pl.DataFrame:
        """All rows of the quarantine."""
        parts = Manifest(self.ledger).current(QUARANTINE.name, None)
        frames = [self.lake.read_part(part, QUARANTINE) for part in parts]
        return pl.concat([QUARANTINE.no_rows, *frames])

    def events(self) -> pl.DataFrame:
        """All built events, with their texts."""
        dates = self.lake.partitions(AGENT_EVENTS)
        frames = [read_events_with_texts(self.lake, day) for day in dates]
        return pl.concat([EVENTS_WITH_TEXTS.to_frame(), *frames])

    def sessions(self) -> pl.DataFrame:
        """All session windows."""
        return self._built(AGENT_SESSIONS)

    def performance(self) -> pl.DataFrame:
        """All performance scores."""
        return self._built(SESSION_PERFORMANCE)

    def _parts(self, table: Table) -> pl.DataFrame:
        dates = [date.session_date for date in Manifest(self.ledger).dates(table.name)]
        parts = [part for day in dates for part in Manifest(self.ledger).current(table.name, day)]
        frames = [self.lake.read_part(part, table) for part in parts]
        return pl.concat([table.no_rows, *frames])

    def _built(self, table: Table) -> pl.DataFrame:
        return self.lake.read(table, self.lake.partitions(table))


def _opened_ledger(url: str) -> Ledger:
    """Open a ledger; a new one in SQLite is a copy, which takes far less time than its tables."""
    path = Path(str(sa.make_url(url).database))
    if not url.startswith("sqlite") or path.exists():
        return open_ledger(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty_ledger())
    ledger = open_ledger(url)
    with writing(ledger.engine) as connection:
        connection.execute(sa.update(LEDGER_IDS).values(ledger_id=uuid4().hex))
    return ledger


@cache
def _empty_ledger() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        open_ledger(f"sqlite:///{path}").close()
        return path.read_bytes()


@contextmanager
def open_workplace(folder: Path, **settings: Any) -> Iterator[Workplace]:
    """Open the stores under a folder; settings by name as in ``Settings``."""
    chosen = Settings(data_dir=folder, **settings)
    landing = open_landing(chosen.landing_dir)
    if landing.folder is not None:
        landing.folder.mkdir(parents=True, exist_ok=True)
    ledger = _opened_ledger(chosen.ledger_url)
    try:
        lake = Lake(open_store(chosen.lake_dir), Manifest(ledger))
        yield Workplace(chosen, cast(Landing, landing), lake, ledger)  # tests know which it is
    finally:
        ledger.close()
