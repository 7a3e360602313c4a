"""The days that a page is about: the last 28 complete ones, or those that are asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from evaluation_pipelines.times import USUAL_DAYS

ALL_DAYS = "all days"

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class DayRange:
    """UTC days, both ends included."""

    first: date
    last: date

    def __str__(self) -> str:
        """Return the days for people."""
        if self.first == self.last:
            return f"{self.first}"
        return f"{self.first} to {self.last}, {self.days} days"

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.last - self.first).days + 1

    @classmethod
    def before_day(cls, day: date, number: int) -> "DayRange":
        """Return the last days before a day."""
        return cls(day - number * _DAY, day - _DAY)

    @property
    def ends(self) -> tuple[date, date]:
        """First and last day."""
        return self.first, self.last

    @property
    def dates(self) -> frozenset[date]:
        """The days one by one."""
        return frozenset(self.first + place * _DAY for place in range(self.days))

    @property
    def before(self) -> "DayRange":
        """As many days just before."""
        return DayRange.before_day(self.first, self.days)


def day_range(since: date | None, until: date | None, today: date) -> DayRange:
    """Return the days from ``since`` until ``until``; without both the last 28 complete ones.

    Raises:
        ValueError: They end before they begin.
    """
    yesterday = today - _DAY
    last = until or max(since or yesterday, yesterday)
    first = since or last - (USUAL_DAYS - 1) * _DAY
    if first > last:
        raise ValueError("the time range ends before it begins")
    return DayRange(first, last)


def named_ranges(today: date, first: date | None) -> Iterator[tuple[str, DayRange]]:
    """Yield names and days that people ask for; weeks begin on Monday.

    Args:
        today: The day that is not complete.
        first: First day with a session; ``None`` without any.
    """
    yesterday, monday = today - _DAY, today - today.weekday() * _DAY
    yield "yesterday", DayRange(yesterday, yesterday)
    yield "last 7 days", DayRange.before_day(today, 7)
    yield "last week", DayRange(monday - _WEEK, monday - _DAY)
    yield f"last {USUAL_DAYS} days", day_range(None, None, today)
    if first is not None and first <= today:
        yield ALL_DAYS, DayRange(first, today)
