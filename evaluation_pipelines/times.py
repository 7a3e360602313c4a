"""Times as sent, converted to whole microseconds since 1970 (UTC).

Integers only: nanoseconds since 1970 do not fit a float.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

USUAL_DAYS = 28
"""Days that lists, pages and comparisons are about if none are given: complete ones."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

EARLIEST_US = (datetime(2020, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""No agent sent telemetry before 2020: an earlier time is a wrong clock."""


def from_iso(text: Any) -> int | None:
    """Convert an ISO 8601 time, UTC without an offset; None if it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
        return to_us(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def column_from_iso(texts: Sequence[Any]) -> list[int | None]:
    """Convert many ISO 8601 times; all together if each can be read and has an offset."""
    try:
        since = [datetime.fromisoformat(text) - _EPOCH for text in texts]
    except (TypeError, ValueError, OverflowError):
        return [from_iso(text) for text in texts]
    return [(time.days * 86_400 + time.seconds) * 1_000_000 + time.microseconds for time in since]


def from_nanoseconds(value: Any) -> int | None:
    """Convert an OTLP time, a whole number or its digits; None for 0 and invalid values.

    Some writers send halves of 32 bits, ``{"low": ..., "high": ...}``, or an ISO 8601 time.
    """
    if isinstance(value, dict):
        value = _from_halves(value.get("low"), value.get("high"))
    if isinstance(value, str) and "-" in value:
        return from_iso(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**64:
        return None
    return value // 1000


def _from_halves(low: Any, high: Any) -> int | None:
    """Return a number of 64 bits; JavaScript writes the lower half with a sign."""
    if not (type(low) is type(high) is int):
        return None
    return (high << 32) + (low & 0xFFFF_FFFF)


def column_from_nanoseconds(values: Sequence[Any]) -> list[int | None]:
    """Convert many OTLP times; those in the form of a collector all together."""
    if _have_19_digits(values):
        return [int(value) // 1000 for value in values]
    return [from_nanoseconds(value) for value in values]


def _have_19_digits(values: Sequence[Any]) -> bool:
    """True if all values are decimal strings of a time between 2001 and 2286."""
    try:
        digits = "".join(values)
    except TypeError:
        return False
    is_number = digits.isascii() and digits.isdigit()
    return is_number and set(map(len, values)) == {19} and min(values) > "1"


def to_us(time: datetime) -> int:
    """Convert an aware time."""
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(time_us: int) -> datetime:
    """Return a time from microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time_us)
