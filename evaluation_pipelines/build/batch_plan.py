"""Which dates are built together: few statements for many dates, and memory that is bounded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.manifest import Manifest

_MIB = 1024 * 1024
_BEGUN_TOGETHER_BYTES = 5 * _MIB
"""Landed Parquet of dates whose events and sessions are made by the same statements."""

_FINISHED_TOGETHER_BYTES = 20 * _MIB
"""The same of dates whose scores are: there are far fewer sessions than events."""

_MOST_TOGETHER = 31
"""Dates."""


@dataclass(frozen=True, slots=True)
class DateGroup:
    """Dates that are begun together, and the size of what landed of them."""

    days: tuple[date, ...]
    size_bytes: int

    @property
    def is_large(self) -> bool:
        """Whether it is one date that is more than several may be."""
        return self.size_bytes > _BEGUN_TOGETHER_BYTES


def plan_batches(stores: Stores, dates: Iterable[date]) -> list[list[DateGroup]]:
    """The dates in their order: lists of groups that are finished together, dates that are begun.

    Both are of bounded size; a date that is larger is by itself.
    """
    single = [DateGroup((day,), _landed_bytes(stores, day)) for day in dates]
    groups = [
        DateGroup(tuple(day for each in some for day in each.days), _size_bytes(some))
        for some in _packed(single, _BEGUN_TOGETHER_BYTES)
    ]
    return list(_packed(groups, _FINISHED_TOGETHER_BYTES))


def _packed(groups: Iterable[DateGroup], most_bytes: int) -> Iterator[list[DateGroup]]:
    packed: list[DateGroup] = []
    for group in groups:
        days = sum(len(each.days) for each in (*packed, group))
        if packed and (_size_bytes((*packed, group)) > most_bytes or days > _MOST_TOGETHER):
            yield packed
            packed = []
        packed.append(group)
    if packed:
        yield packed


def _size_bytes(groups: Sequence[DateGroup]) -> int:
    return sum(each.size_bytes for each in groups)


def _landed_bytes(stores: Stores, day: date) -> int:
    parts = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, day)
    return sum(part.size_bytes for part in parts)
