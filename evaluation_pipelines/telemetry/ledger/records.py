"""The values that go into the ledger and come out of it.

Times are aware datetimes in UTC, offsets and sizes are bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from evaluation_pipelines.telemetry.domain.counts import IngestCounts

ANY_ORGANIZATION = "*"
"""Organization of a session that only an attribution line has named so far."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the landing folder, known by its identity and not by its name."""

    file_id: str
    device: int
    inode: int
    head_bytes: int
    head_sha256: str
    path: str
    size_bytes: int
    first_seen_at: datetime
    position: int = 0
    finished_size_bytes: int = 0
    last_read_at: datetime | None = None
    last_event_time: datetime | None = None
    lease_owner: str | None = None
    lease_until: datetime | None = None
    lease_epoch: int = 0


@dataclass(frozen=True, slots=True)
class NewPart:
    """A Parquet file about to be named by the manifest; ``path`` is relative to the lake.

    ``session_date`` is None for a table without partitions (quarantine).
    """

    table_name: str
    session_date: date | None
    path: str
    row_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file named by the manifest.

    ``file_id`` and the offsets say which bytes it holds; they are None for a merged part.
    ``superseded_at`` is None while readers should read it.
    """

    part_id: int
    table_name: str
    session_date: date | None
    path: str
    file_id: str | None
    from_offset: int | None
    to_offset: int | None
    row_count: int
    size_bytes: int
    created_at: datetime
    superseded_at: datetime | None


@dataclass(frozen=True, slots=True)
class PartDate:
    """What the current parts of one table hold for one date."""

    session_date: date
    parts: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Where a session began: decided by the first of its events that was ingested."""

    organization_id: str
    session_id: str
    session_date: date
    first_event_time: datetime


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """Everything that one stretch of bytes of one file turned into.

    ``head_bytes`` and ``head_sha256`` replace the stored ones (a short file's head grows).
    ``names`` counts the records that were not stored, by (source, event name).
    """

    file_id: str
    epoch: int
    from_offset: int
    to_offset: int
    head_bytes: int
    head_sha256: str
    ingested_at: datetime
    last_event_time: datetime | None = None
    parts: tuple[NewPart, ...] = ()
    sessions: tuple[SessionStart, ...] = ()
    counts: IngestCounts = field(default_factory=IngestCounts)
    names: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Balance:
    """Events that all batches counted, and rows of the manifest within and outside some days."""

    counted: int
    within: int
    outside: int
