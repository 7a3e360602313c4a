"""The days of a page, counted by hand; 2026-11-25 is a Wednesday."""

from datetime import date

import pytest

from evaluation_pipelines.service.pages.domain.days import (
    DayRange,
    day_range,
    named_ranges,
)

TODAY = date(2026, 11, 25)


def november(first: int, last: int) -> DayRange:
    return DayRange(date(2026, 11, first), date(2026, 11, last))


def test_the_usual_days_are_the_last_28_complete_ones() -> None:
    usual = day_range(None, None, TODAY)
    assert usual == DayRange(date(2026, 10, 28), date(2026, 11, 24))
    assert f"{usual}" == "2026-10-28 to 2026-11-24, 28 days"
    assert usual.before == DayRange(date(2026, 9, 30), date(2026, 10, 27))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (date(2026, 11, 3), None, november(3, 24)),
        (TODAY, None, november(25, 25)),
        (None, date(2026, 11, 28), november(1, 28)),
        (date(2026, 11, 2), date(2026, 11, 3), november(2, 3)),
    ],
)
def test_one_end_is_enough(since: date | None, until: date | None, expected: DayRange) -> None:
    assert day_range(since, until, TODAY) == expected


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it begins"):
        day_range(date(2026, 11, 3), date(2026, 11, 2), TODAY)


def test_named_days() -> None:
    found = dict(named_ranges(TODAY, date(2026, 11, 20)))
    assert found == {
        "yesterday": november(24, 24),
        "last 7 days": november(18, 24),
        "last week": november(16, 22),
        "last 28 days": DayRange(date(2026, 10, 28), date(2026, 11, 24)),
        "all days": november(20, 25),
    }
    # On a Monday the last week has just ended.
    assert dict(named_ranges(date(2026, 11, 23), None))["last week"] == november(16, 22)
    assert "all days" not in dict(named_ranges(TODAY, None))
