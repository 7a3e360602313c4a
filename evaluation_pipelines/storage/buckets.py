"""Buckets: a fixed division of sessions, so that parts of a date can be built by themselves.

A session is in one of 256 buckets by a hash of its id alone: an attribution line knows no
organization. A shard is a range of buckets. Another number of shards only groups the same buckets
in another way.
"""

import hashlib
from dataclasses import dataclass
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
    numbers = pl.Series([bucket_of(each) for each in known], dtype=pl.UInt8)
    return session_ids.replace_strict(known, numbers, return_dtype=pl.UInt8).rename(BUCKET)
