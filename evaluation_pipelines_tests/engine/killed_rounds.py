"""A round of ingest and build with everything away, while nodes are killed and connections cut."""

import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.engine import EngineError
from evaluation_pipelines.reporting.books import books_of
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.storage.ledger.errors import LedgerUnavailableError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import LockLostError
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.build.test_postgresql import cutting, sessions
from evaluation_pipelines_tests.engine.ray_nodes import killing
from evaluation_pipelines_tests.servers.s3 import BUCKET
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

BUILT = (AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE)
TELEMETRY = sessions(24, 3)
_SMALL: dict[str, Any] = {"batch_bytes": 4_000, "parallel_from_bytes": 1, "shards": 2}
_LATER = NOW + timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in a round, and what it left.

    Attributes:
        killed: Nodes that were killed without grace.
        cuts: Times that all connections to the ledger were cut.
        wrong_tables: Tables whose rows have another hash than on one machine.
        failed: Dates that could not be built once nothing was killed or cut any more.
        unbalanced: Equations of the books that do not balance.
        seconds: Wall time.
    """

    killed: int
    cuts: int
    wrong_tables: Sequence[str]
    failed: Sequence[str]
    unbalanced: Sequence[str]
    seconds: float

    @property
    def is_good(self) -> bool:
        """True if nothing was lost or doubled."""
        return not (self.wrong_tables or self.failed or self.unbalanced)

    def __str__(self) -> str:
        rows = f"ROWS DIFFER: {', '.join(self.wrong_tables)}" if self.wrong_tables else "rows equal"
        books = "BOOKS DO NOT BALANCE: " if self.unbalanced else "books balance"
        failed = f", NOT BUILT: {'; '.join(self.failed)}" if self.failed else ""
        return (
            f"{self.killed} nodes killed, connections cut {self.cuts} times, {rows}, "
            f"{books}{'; '.join(self.unbalanced)}{failed}, {self.seconds:.0f} s"
        )


def on_one_machine(folder: Path) -> dict[str, str]:
    """Return a hash of each table by the local engine, in a folder, with a ledger in SQLite."""
    with open_workplace(folder) as workplace:
        workplace.land("logs.jsonl", TELEMETRY)
        workplace.ingest()
        assert {type(result) for result in workplace.build()} == {DateBuilt}
        return hashes(workplace)


def disturbed_round(
    cluster: Any, ledger_url: str, folder: Path, seed: int, expected: Mapping[str, str]
) -> Round:
    """Ingest and build on a cluster, a bucket and PostgreSQL while these are disturbed.

    Steps end with a clear error, or fail a date; they are repeated until nothing is due.
    """
    began, chance = time.monotonic(), random.Random(seed)  # noqa: S311 - no secret
    bucket = f"s3://{BUCKET}/{uuid4().hex}/lake"
    away: dict[str, Any] = {"lake_dir": bucket, "ledger_url": ledger_url, "engine": "ray"}
    with open_workplace(folder, **away, **_SMALL) as workplace:
        workplace.land("logs.jsonl", TELEMETRY)
        with (
            killing(cluster, lambda: chance.uniform(0.5, 5)) as killed,
            cutting(ledger_url, seed) as cuts,
        ):
            for _ in range(3):
                for step in (workplace.ingest, workplace.build):
                    with suppress(LedgerUnavailableError, LockLostError, EngineError):
                        step()
        failed = _finish(workplace)
        found = hashes(workplace)
        wrong = [name for name, row_hash in expected.items() if found[name] != row_hash]
        unbalanced = _unbalanced(workplace)
    return Round(len(killed), len(cuts), wrong, failed, unbalanced, time.monotonic() - began)


def _finish(workplace: Workplace) -> list[str]:
    """Ingest and build what is left; return the dates that cannot be built."""
    workplace.ingest()
    dates = [row.session_date for row in RebuildQueue(workplace.ledger).all()]
    results = Build(workplace.stores, clock=lambda: _LATER).run(dates)
    return [str(result) for result in results if not isinstance(result, DateBuilt)]


def _unbalanced(workplace: Workplace) -> list[str]:
    """Return what does not balance in the books of all dates, and in those of the ingest."""
    dates = workplace.lake.partitions(AGENT_SESSIONS)
    books = books_of(workplace.stores, dates, _LATER)
    found = [
        f"{day}: {equation}"
        for day, of_day in books.items()
        for equation in of_day.equations
        if not equation.is_balanced
    ]
    counted, landed = IngestBatches(workplace.ledger).totals().events, workplace.landed().height
    if counted != landed:
        found.append(f"{counted} events counted, {landed} landed")
    return found


def hashes(workplace: Workplace) -> dict[str, str]:
    """Return a hash of the rows of each main table, without the id of the landing file."""
    return {table.name: row_hash(built(workplace, table), table.key) for table in BUILT}


def built(workplace: Workplace, table: Table) -> pl.DataFrame:
    """Return the rows of a table without the id of the landing file."""
    return workplace.lake.select(table).drop("source_file_id", strict=False)


def row_hash(rows: pl.DataFrame, key: Sequence[str]) -> str:
    """Return a hash of rows in the order of their key, or of all columns if they have none.

    They are hashed as Parquet: in Arrow any bytes may stand in the place of a null.
    """
    content = BytesIO()
    rows.sort(key or rows.columns).write_parquet(content, compression="uncompressed")
    return hashlib.sha256(content.getvalue()).hexdigest()
