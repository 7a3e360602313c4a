"""Which dates are built together: few statements for many dates, and memory that is bounded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.stores import Stores

_TOGETHER_BYTES = 4 * 1024 * 1024
_MOST_TOGETHER = 31
"""Dates that are built together have so many bytes of landed Parquet, and are no more than that."""


@dataclass(slots=True)
class Group:
    """Dates that are built together, and the size of what landed of them."""

    days: list[date] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def is_large(self) -> bool:
        """Whether it is one date that is more than several may be."""
        return self.size_bytes > _TOGETHER_BYTES

    def has_room(self, size_bytes: int) -> bool:
        """Whether another date fits in."""
        fits = self.size_bytes + size_bytes <= _TOGETHER_BYTES
        return not self.days or (fits and len(self.days) < _MOST_TOGETHER)


def grouped(stores: Stores, dates: Iterable[date]) -> Iterator[Group]:
    """The dates in groups of bounded size, in their order; a large date is one of its own."""
    group = Group()
    for day in dates:
        parts = stores.ledger.parts.current(AGENT_EVENTS_LANDED.name, day)
        size_bytes = sum(part.size_bytes for part in parts)
        if not group.has_room(size_bytes):
            yield group
            group = Group()
        group.days.append(day)
        group.size_bytes += size_bytes
    if group.days:
        yield group
