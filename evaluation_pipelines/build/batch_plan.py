"""Batch plan: which dates are built by the same statements, within a limit on memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_MIB = 1024 * 1024
_MAX_GROUP_BYTES = 8 * _MIB
"""Landed Parquet of a group: dates whose events and sessions are built by the same statements."""

_MAX_BATCH_BYTES = 32 * _MIB
"""Landed Parquet of a batch: dates whose scores are. Sessions are far fewer than events."""

_MAX_BATCH_DATES = 31


@dataclass(frozen=True, slots=True)
class DateGroup:
    """Dates whose first tables are built together, and the size of their landed events."""

    days: tuple[date, ...]
    size_bytes: int

    @property
    def is_large(self) -> bool:
        """True for a single date that exceeds the size limit of a group."""
        return self.size_bytes > _MAX_GROUP_BYTES


def plan_batches(stores: Stores, dates: Iterable[date]) -> list[list[DateGroup]]:
    """Divide dates into batches, and each batch into groups, in the order of the dates.

    Groups and batches are limited in size; a date that exceeds the limit is in one of its own.
    """
    single = [DateGroup((day,), _landed_bytes(stores, day)) for day in dates]
    groups = [
        DateGroup(tuple(day for each in packed for day in each.days), _size_bytes(packed))
        for packed in _pack(single, _MAX_GROUP_BYTES)
    ]
    return list(_pack(groups, _MAX_BATCH_BYTES))


def _pack(groups: Iterable[DateGroup], max_bytes: int) -> Iterator[list[DateGroup]]:
    packed: list[DateGroup] = []
    for group in groups:
        days = sum(len(each.days) for each in (*packed, group))
        if packed and (_size_bytes((*packed, group)) > max_bytes or days > _MAX_BATCH_DATES):
            yield packed
            packed = []
        packed.append(group)
    if packed:
        yield packed


def _size_bytes(groups: Sequence[DateGroup]) -> int:
    return sum(each.size_bytes for each in groups)


def _landed_bytes(stores: Stores, day: date) -> int:
    manifest = Manifest(stores.ledger)
    landed = (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED)
    return sum(part.size_bytes for table in landed for part in manifest.current(table.name, day))
