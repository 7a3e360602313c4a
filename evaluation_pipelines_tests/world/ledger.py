"""Values for the tests of the ledger: what is not named is plain and the same everywhere."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    SourceFile,
    SourceFiles,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MARCH_1 = date(2026, 3, 1)
MARCH_2 = date(2026, 3, 2)
LANDED = "agent_events_landed"


def at(**passed: float) -> datetime:
    """So much after noon."""
    return NOON + timedelta(**passed)


def source_file(file_id: str = "f1", **changes: Any) -> SourceFile:
    """A file that was seen just now and never read."""
    file = SourceFile(
        file_id=file_id,
        device=64_769,
        inode=131_072,
        head_bytes=4_096,
        head_sha256="ab" * 32,
        path=f"{file_id}.jsonl",
        size_bytes=10_000,
        first_seen_at=NOON,
    )
    return replace(file, **changes)


def new_part(path: str, session_date: date | None = MARCH_1, **changes: Any) -> NewPart:
    """A part of landed events."""
    part = NewPart(LANDED, session_date, path, row_count=10, size_bytes=1_000, sha256="ab" * 32)
    return replace(part, **changes)


def session(
    session_id: str, session_date: date = MARCH_1, organization_id: str = "acme"
) -> SessionStart:
    """A session that began at noon."""
    return SessionStart(organization_id, session_id, session_date, NOON)


def batch(from_offset: int = 0, to_offset: int = 100, **changes: Any) -> IngestBatch:
    """A batch of file f1 that holds nothing."""
    plain = IngestBatch(
        file_id="f1",
        from_offset=from_offset,
        to_offset=to_offset,
        head_bytes=4_096,
        head_sha256="ab" * 32,
        ingested_at=NOON,
    )
    return replace(plain, **changes)


def add_file(ledger: Ledger, file_id: str = "f1", **changes: Any) -> None:
    """Add a file that was never read, unless it is known."""
    SourceFiles(ledger).add(source_file(file_id, **changes))


def commit(ledger: Ledger, made: IngestBatch) -> None:
    """Commit a batch under the lock of ingests."""
    with held(ledger, INGEST, timeout_s=60) as hold:
        IngestBatches(ledger).commit_batch(made, hold)


def commit_parts(ledger: Ledger, dates: Mapping[str, date | None], **changes: Any) -> list[int]:
    """Commit one batch with a part for each path, of the date named; returns the parts' ids."""
    add_file(ledger)
    parts = tuple(new_part(path, day, **changes) for path, day in dates.items())
    position = SourceFiles(ledger).get("f1").position
    commit(ledger, batch(position, position + 100, parts=parts))
    tables = {part.table_name for part in parts}
    stored = [
        part
        for table in tables
        for day in set(dates.values())
        for part in Manifest(ledger).current(table, day)
    ]
    return [part.part_id for path in dates for part in stored if part.path == path]
