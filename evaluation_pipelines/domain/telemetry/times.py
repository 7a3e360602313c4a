"""Times as sent, as whole microseconds since 1970 (UTC).

Integers only: nanoseconds since 1970 do not fit a float.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

EARLIEST_US = (datetime(2020, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""No agent sent telemetry before 2020: an earlier time is a broken clock."""


def from_iso(text: Any) -> int | None:
    """Microseconds of an ISO 8601 time; one without offset is taken as UTC. None if unreadable."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
        return to_us(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def from_nanoseconds(value: Any) -> int | None:
    """Microseconds of an OTLP time: a whole number or its digits; 0 and nonsense are None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**64:
        return None
    return value // 1000


def to_us(time: datetime) -> int:
    """Microseconds since 1970 of an aware time."""
    return (time - _EPOCH) // _MICROSECOND
