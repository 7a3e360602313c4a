"""Parts: the immutable Parquet files of the lake, as the manifest names them."""

from dataclasses import dataclass
from datetime import date, datetime

from evaluation_pipelines.storage.buckets import ALL_BUCKETS


@dataclass(frozen=True, slots=True)
class NewPart:
    """A Parquet file to be added to the manifest; ``path`` is relative to the lake.

    ``session_date`` is None for a table without partitions. ``sha256`` is the hash of the file as
    hexadecimal digits. All sessions of the rows are in the buckets ``first_bucket`` to
    ``last_bucket``. A part without a ``slot`` is added to the others; one with a slot replaces
    others, see ``replaces``.
    """

    table_name: str
    session_date: date | None
    path: str
    row_count: int
    size_bytes: int
    sha256: str
    slot: str | None = None
    first_bucket: int = ALL_BUCKETS.first
    last_bucket: int = ALL_BUCKETS.last

    def replaces(self, other: "NewPart") -> bool:
        """Return True if ``other`` is a part of the same slot and shares buckets with this one."""
        return (
            self.slot is not None
            and (self.table_name, self.session_date, self.slot)
            == (other.table_name, other.session_date, other.slot)
            and self.first_bucket <= other.last_bucket
            and other.first_bucket <= self.last_bucket
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(NewPart):
    """A Parquet file in the manifest; ``superseded_at`` is None while it is current."""

    part_id: int
    created_at: datetime
    superseded_at: datetime | None


@dataclass(frozen=True, slots=True)
class PartOrigin:
    """Bytes of a landing file from which ``row_count`` rows of a landed part were read."""

    file_id: str
    from_offset: int
    to_offset: int
    row_count: int
    read_at: datetime


@dataclass(frozen=True, slots=True)
class PartDate:
    """Totals of the current parts of one table and date."""

    session_date: date
    parts: int
    rows: int
    size_bytes: int


def what_to_do(part: NewPart) -> str:
    """Return what to do about a part that cannot be read."""
    if part.slot is None and part.session_date is None:
        return "Restore it from a backup, or delete it: it has lines that could not be read."
    if part.slot is None:
        return (
            "Read its landing file again: evaluation-pipelines ingest --again "
            f"--date {part.session_date}. If that file is gone, restore the part from a backup."
        )
    if part.session_date is None:
        return f"The next run that makes {part.table_name} replaces it."
    return "Build its date again: evaluation-pipelines build --damaged"
