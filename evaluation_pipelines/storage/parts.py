"""Parts: the immutable Parquet files of the lake, as the manifest names them."""

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True, slots=True)
class NewPart:
    """A Parquet file to be added to the manifest; ``path`` is relative to the lake.

    ``session_date`` is None for a table without partitions. ``sha256`` is the hash of the file as
    hexadecimal digits. A part with a ``slot`` replaces the current part of the same table, date and
    slot; one without is added to the others.
    """

    table_name: str
    session_date: date | None
    path: str
    row_count: int
    size_bytes: int
    sha256: str
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file in the manifest.

    ``file_id`` and the offsets give the bytes it was built from; they are None for a merged part.
    ``superseded_at`` is None while the part is current, ``sha256`` if it was written before
    checksums were kept.
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
    sha256: str | None
    created_at: datetime
    superseded_at: datetime | None
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class PartDate:
    """Totals of the current parts of one table and date."""

    session_date: date
    parts: int
    rows: int
    size_bytes: int
