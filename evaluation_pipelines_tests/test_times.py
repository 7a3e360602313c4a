"""Times as sent, in whole microseconds."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.times import (
    column_from_iso,
    from_iso,
    from_nanoseconds,
    to_us,
)

# 2026-06-01T12:00:00Z: 20 605.5 days of 86 400 s after 1970 began.
NOON_US = 1_780_315_200_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2026-06-01T12:00:00Z", NOON_US),
        ("2026-06-01T12:00:00.123Z", NOON_US + 123_000),
        ("2026-06-01T12:00:00.123456+00:00", NOON_US + 123_456),
        ("2026-06-01T14:30:00+02:30", NOON_US),
        ("2026-06-01 12:00:00", NOON_US),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("", None),
        ("noon", None),
        ("2026-06-31T12:00:00Z", None),
        (1_780_315_200, None),
        (None, None),
    ],
)
def test_an_iso_time_is_read_or_none(text: object, microseconds: int | None) -> None:
    assert from_iso(text) == microseconds


@pytest.mark.parametrize(
    "last",
    ["2026-06-01T14:30:00.5+02:30", "2026-06-01T12:00:00", "0001-01-01T00:00:00+23:59", "x", 7],
)
def test_iso_times_together_are_those_read_one_by_one(last: object) -> None:
    sent = ["2026-06-01T12:00:00.123456Z", "1969-12-31T23:59:59.999999Z", last]
    assert column_from_iso(sent) == [NOON_US + 123_456, -1, from_iso(last)]


@pytest.mark.parametrize(
    ("sent", "microseconds"),
    [
        (NOON_US * 1000, NOON_US),
        (str(NOON_US * 1000), NOON_US),
        # 2^53 is passed: as a float ...999 999 would be ...000 000 of the next second.
        ("1780315199999999999", NOON_US - 1),
        (1, 0),
        (0, None),
        ("0", None),
        ("", None),
        (-1, None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        (1.5e18, None),
        (True, None),
        (None, None),
        ({"low": 1}, None),
        (2**64 - 1, (2**64 - 1) // 1000),
        (2**64, None),
        ("9" * 21, None),
    ],
)
def test_nanoseconds_are_whole_numbers_or_nothing(sent: object, microseconds: int | None) -> None:
    assert from_nanoseconds(sent) == microseconds


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_survives_its_text_and_its_microseconds(time: datetime) -> None:
    assert from_iso(time.isoformat()) == to_us(time)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=to_us(time)) == time


@given(st.text() | st.integers() | st.floats() | st.binary())
def test_no_value_stops_the_reading_of_times(value: object) -> None:
    assert from_iso(value) is None or isinstance(value, str)
    assert from_nanoseconds(value) is None or isinstance(value, str | int)
