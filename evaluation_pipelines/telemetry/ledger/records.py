"""Values of the ledger's telemetry tables.

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
    """One file of the landing folder, identified by device, inode and head, not by name."""

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
    """A Parquet file to be added to the manifest; ``path`` is relative to the lake.

    ``session_date`` is None for a table without partitions (quarantine).
    """

    table_name: str
    session_date: date | None
    path: str
    row_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file in the manifest.

    ``file_id`` and the offsets give the bytes it was built from; they are None for a merged part.
    ``superseded_at`` is None while the part is current.
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
    """Totals of the current parts of one table and date."""

    session_date: date
    parts: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Start of a session, decided by the first of its ingested events."""

    organization_id: str
    session_id: str
    session_date: date
    first_event_time: datetime


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """Result of one byte range of one file.

    ``head_bytes`` and ``head_sha256`` replace the stored ones (the head of a short file grows).
    ``names`` counts records that were not stored, by (source, event name).
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
    """Events counted by all batches, and manifest rows within and outside a range of days."""

    counted: int
    within: int
    outside: int
