"""What became of a date: built, or failed with the table and the error."""

from dataclasses import dataclass
from datetime import date

from evaluation_pipelines.storage.daily_table import BuiltPartition


class NotAnnouncedError(Exception):
    """The tables of a date have become current, but events about one were not recorded."""


@dataclass(frozen=True, slots=True)
class DateBuilt:
    """A date whose tables were all built: row counts by table, and other counts by name."""

    session_date: date
    rows: dict[str, int]
    facts: dict[str, int]


@dataclass(frozen=True, slots=True)
class DateFailed:
    """A date that could not be built, with the table and the error.

    With ``is_current`` its tables were built, but not all events about ``table`` were recorded: the
    next attempt records them. ``broken`` is the partition that failed a check, if that was the
    error. ``attempts`` is the number of failures so far; a ``parked`` date is not retried
    automatically.
    """

    session_date: date
    table: str
    error: str
    broken: BuiltPartition | None = None
    attempts: int = 0
    parked: bool = False
    is_current: bool = False

    def __str__(self) -> str:
        if self.is_current:
            return f"{self.session_date}: {self.error}"
        return f"{self.session_date}: {self.table} was not built: {self.error}"
