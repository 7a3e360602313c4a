"""Parts: the immutable Parquet files of the lake, as the manifest names them, and their buckets.

A session is in one of 256 buckets by a hash of its id alone: an attribution line knows no
organization. So the parts of a date can be built by themselves: a shard is a range of buckets, and
another number of shards only groups the same buckets in another way.
"""

import hashlib
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise

import polars as pl

BUCKETS = 256
BUCKET = "bucket"
"""Column of landed tables with the bucket of the session."""

_KNOWN_SESSIONS = 65_536


@dataclass(frozen=True, slots=True)
class Shard:
    """The buckets ``first`` to ``last``."""

    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """True if the shard has all buckets."""
        return (self.first, self.last) == (0, BUCKETS - 1)

    def contains(self, first: int, last: int) -> bool:
        """Return True if all of the buckets ``first`` to ``last`` are in the shard."""
        return self.first <= first and last <= self.last

    def overlaps(self, first: int, last: int) -> bool:
        """Return True if any of the buckets ``first`` to ``last`` is in the shard."""
        return first <= self.last and self.first <= last

    def rows_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with a ``session_id`` in the shard."""
        return rows.filter(buckets_of(rows["session_id"]).is_between(self.first, self.last))


ALL_BUCKETS = Shard(0, BUCKETS - 1)


def shards(count: int) -> list[Shard]:
    """Divide the buckets into ``count`` shards of nearly the same size (1 to 256)."""
    starts = [BUCKETS * number // count for number in range(count + 1)]
    return [Shard(first, end - 1) for first, end in pairwise(starts)]


@lru_cache(_KNOWN_SESSIONS)
def bucket_of(session_id: str) -> int:
    """Return the bucket of a session: BLAKE2b-64 of its id as UTF-8, modulo 256."""
    digest = hashlib.blake2b(session_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS


def buckets_of(session_ids: pl.Series) -> pl.Series:
    """Return the bucket of each session id, as UInt8."""
    known = session_ids.unique()
    numbers = pl.Series([bucket_of(part) for part in known], dtype=pl.UInt8)
    return session_ids.replace_strict(known, numbers, return_dtype=pl.UInt8).rename(BUCKET)


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


_MADE_BY = {
    "masque_lift": "lift",
    "missing_tools": "judge list missing-tools",
    **dict.fromkeys(("judge_changes", "judge_anchors"), "judge changes"),
    **dict.fromkeys(("model_comparison", "model_comparison_pairs", "model_regressions"), "compare"),
}
"""Command that makes a table without dates again; all others are of the reputation."""


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
        command = _MADE_BY.get(part.table_name, "reputation update")
        return f"Make it again: evaluation-pipelines {command}"
    return "Build its date again: evaluation-pipelines build --damaged"
