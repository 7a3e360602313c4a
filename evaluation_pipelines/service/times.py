"""Times in requests: with a time zone, and of a time in which there can be telemetry."""

from datetime import UTC, date, datetime, time
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime

_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def _check(value: datetime) -> datetime:
    # Days are added and subtracted, which fails at the ends of the calendar.
    if not _FIRST <= value <= _LAST:
        raise ValueError("must be between the years 2000 and 2200")
    return value


def _check_date(day: date) -> date:
    _check(datetime.combine(day, time(), UTC))
    return day


RequestTime = Annotated[AwareDatetime, AfterValidator(_check)]
RequestDate = Annotated[date, AfterValidator(_check_date)]
