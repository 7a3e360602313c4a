"""Total cost of sessions, and for how many it is unknown."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import polars as pl

from evaluation_pipelines.formatting import usd, whole
from evaluation_pipelines.service.pages.domain.days import DayRange, named_ranges


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of sessions.

    Attributes:
        known_usd: Sum of the known costs.
        sessions: Number of all sessions.
        unknown: Number of those whose cost is unknown.
    """

    known_usd: float
    sessions: int
    unknown: int

    @property
    def total(self) -> str:
        """The sum for people; a dash if no cost is known."""
        return usd(self.known_usd if self.unknown < self.sessions else None)

    def __str__(self) -> str:
        """Return a sentence."""
        if not self.unknown:
            return f"Total cost: {usd(self.known_usd)} ({whole(self.sessions)} sessions)."
        known = f"known for {whole(self.sessions - self.unknown)} of {whole(self.sessions)}"
        return f"Total cost: {self.total} ({known} sessions)."


def cost_of(rows: pl.DataFrame) -> Cost:
    """Return the cost of rows with ``cost_usd``."""
    costs = rows["cost_usd"]
    return Cost(float(costs.sum()), rows.height, costs.null_count())


def costs_of_ranges(rows: pl.DataFrame, today: date) -> Iterator[tuple[str, DayRange, Cost]]:
    """Yield the name, the days and the cost of the times that people ask for.

    Args:
        rows: Rows with ``session_date`` and ``cost_usd``.
        today: The day that is not complete.
    """
    for name, days in named_ranges(today, None):
        yield name, days, cost_of(rows.filter(pl.col("session_date").is_between(*days.ends)))
