"""Values of the ledger's telemetry tables.

Times are aware datetimes in UTC, offsets and sizes are bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple

from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.domain.counts import IngestCounts


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
    changed_at_ns: int | None = None
    position: int = 0
    finished_size_bytes: int = 0
    unfinished: str | None = None
    last_read_at: datetime | None = None
    last_event_time: datetime | None = None


class SeenFile(NamedTuple):
    """A file as it was last seen.

    ``changed_at_ns`` is the time of its last change if all of it was read then, otherwise None.
    """

    device: int
    inode: int
    size_bytes: int
    changed_at_ns: int | None


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Start of a session, decided by the first of its ingested events.

    ``parent_session_id`` is the session under which those of a sub-agent are filed.
    """

    organization_id: str
    session_id: str
    session_date: date
    first_event_time: datetime
    parent_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of a batch was left out as forgotten.

    ``version`` is the one of what was forgotten by then, ``sessions`` are hashes of sessions that
    are forgotten because of their people.
    """

    version: int = 0
    sessions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """Result of one byte range of one file.

    ``head_bytes`` and ``head_sha256`` replace the stored ones (the head of a short file grows).
    ``names`` counts records that were not stored, by (source, event name). The parts were written
    after ``written_after``, a time of the ledger's clock.
    """

    file_id: str
    from_offset: int
    to_offset: int
    head_bytes: int
    head_sha256: str
    ingested_at: datetime
    last_event_time: datetime | None = None
    parts: tuple[NewPart, ...] = ()
    sessions: tuple[SessionStart, ...] = ()
    counts: IngestCounts = field(default_factory=IngestCounts)
    left_out: LeftOut = field(default_factory=LeftOut)
    names: Mapping[tuple[str, str], int] = field(default_factory=dict)
    written_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """Events counted by all batches, manifest rows within and outside a range of days, and erased.

    ``erased`` has the events that were taken out again, by session date.
    """

    counted: int
    within: int
    outside: int
    erased: Mapping[date, int] = field(default_factory=dict)
