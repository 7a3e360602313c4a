"""Sessions and costs of the last days; 2026-06-03 is a Wednesday."""

from datetime import date, timedelta

import polars as pl
import pytest

from evaluation_pipelines.judge_changes.domain.judges import Turn, is_one_scale
from evaluation_pipelines.service.pages.domain.days import (
    DayRange,
    cost_of,
    day_range,
    days_chart,
    last_days,
    named_ranges,
    range_costs,
    span_of,
    tiles,
)

TODAY = date(2026, 6, 3)

ROWS = pl.DataFrame(
    {
        "session_date": [TODAY, TODAY, TODAY, TODAY, TODAY - timedelta(days=1)],
        "effective_100": [75.0, None, 49.9, None, 50.0],
        "score": [75.0, None, 49.9, None, 54.0],
        "is_scored": [True, True, True, False, True],
        "cost_usd": [0.25, None, 0.5, None, None],
        "awaits_review": [False, True, False, False, False],
    }
)

ROWS_WITH_STATUS = ROWS.with_columns(
    status=pl.Series(["failed", "completed", "failed", "open", "failed"])
)
YESTERDAY = TODAY - timedelta(days=1)


def test_days_are_counted_by_band_and_empty_ones_are_among_them() -> None:
    before, yesterday, today = last_days(ROWS, TODAY, 3)
    assert (before.sessions, before.mean_score) == (0, None)
    assert yesterday.counts == {"green": 0, "yellow": 1, "red": 0, "due": 0, "unscored": 0}
    assert yesterday.mean_score == 54.0  # on the scale of the newest judge
    assert today.counts == {"green": 1, "yellow": 0, "red": 1, "due": 1, "unscored": 1}
    assert today.cost_usd == 0.75
    # Four sessions, three of them scored, of which one is not shown: (75 + 49.9) / 2 = 62.45
    assert today.cells == ("4", "3", "1", "0", "1", "1", "1", "62.5", "$0.75")


def test_each_bar_leads_to_its_day() -> None:
    chart = days_chart(last_days(ROWS, TODAY, 2), ["/a?x=1&y=2", "/b"])
    assert '<a href="/a?x=1&amp;y=2"><title>2026-06-02, 1 session. 75-100: 0, 50-74: 1' in chart
    # Of four sessions in 154 pixels, each is 38.5 high.
    assert chart.count('height="38.5"') == 5
    assert 'class="unscored"' in chart


def test_a_chart_without_sessions_has_no_bars() -> None:
    chart = days_chart(last_days(ROWS.clear(), TODAY, 2), ["/a", "/b"])
    assert 'class="green"' not in chart


def test_a_week_is_shown_next_to_the_one_before() -> None:
    rows = ROWS_WITH_STATUS
    today, yesterday = (span_of(rows, day, day) for day in (TODAY, YESTERDAY))
    assert (today.sessions, today.failed, today.unknown, today.cost) == (4, 2, 2, "$0.75")
    assert yesterday.cost == "-"
    shown = [(tile.name, tile.value, tile.change) for tile in tiles(today, yesterday)]
    # (75 + 49.9) / 2 = 62.45, before 54.0: 8.45 more.
    assert shown == [
        ("Sessions", "4", "+3"),
        ("Mean score", "62.5", "+8.5"),
        ("Failed", "2", "+1"),
        ("Known cost", "$0.75", None),
    ]
    half = today.__class__(2, 70.0, 3, 1.0, 0)
    assert [tile.change for tile in tiles(half, today)] == ["-2", "+7.6", "+1", "+$0.25"]
    nothing = span_of(rows.clear(), TODAY, TODAY)
    assert {tile.change for tile in tiles(today, nothing)} == {None}
    assert [tile.value for tile in tiles(nothing, today)] == ["0", "-", "0", "$0.00"]


@pytest.mark.parametrize(
    ("changed_on", "shift", "is_so"),
    [
        (20, None, False),
        (12, None, False),  # the second day of the week before
        (11, None, True),  # its first day: both weeks are by the new judge
        (24, None, False),
        (25, None, True),  # today
        (20, -2.0, True),  # earlier scores are adjusted
    ],
)
def test_a_cut_between_two_weeks_leaves_their_means_not_comparable(
    changed_on: int, shift: float | None, *, is_so: bool
) -> None:
    week = DayRange.before_day(WEDNESDAY, 7)  # November 18 to 24, before it 11 to 17
    turn = Turn(date(2026, 11, changed_on), "default", "judge-1", "judge-2", shift, None)
    assert is_one_scale([turn], week.before.first, week.last) is is_so

    today, yesterday = (span_of(ROWS_WITH_STATUS, day, day) for day in (TODAY, YESTERDAY))
    changes = [tile.change for tile in tiles(today, yesterday, has_one_scale=is_so)]
    assert changes[1] == ("+8.5" if is_so else "judge changed, not comparable")


WEDNESDAY = date(2026, 11, 25)


def november(first: int, last: int) -> DayRange:
    return DayRange(date(2026, 11, first), date(2026, 11, last))


def test_the_usual_days_are_the_last_28_complete_ones() -> None:
    usual = day_range(None, None, WEDNESDAY)
    assert usual == DayRange(date(2026, 10, 28), date(2026, 11, 24))
    assert f"{usual}" == "2026-10-28 to 2026-11-24, 28 days"
    assert usual.before == DayRange(date(2026, 9, 30), date(2026, 10, 27))


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (date(2026, 11, 3), None, november(3, 24)),
        (WEDNESDAY, None, november(25, 25)),
        (None, date(2026, 11, 28), november(1, 28)),
        (date(2026, 11, 2), date(2026, 11, 3), november(2, 3)),
    ],
)
def test_one_end_is_enough(since: date | None, until: date | None, expected: DayRange) -> None:
    assert day_range(since, until, WEDNESDAY) == expected


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        day_range(date(2026, 11, 3), date(2026, 11, 2), WEDNESDAY)


def test_named_days() -> None:
    found = dict(named_ranges(WEDNESDAY, date(2026, 11, 20)))
    assert found == {
        "yesterday": november(24, 24),
        "last 7 days": november(18, 24),
        "last 28 days": DayRange(date(2026, 10, 28), date(2026, 11, 24)),
        "all days": november(20, 25),
    }
    assert "all days" not in dict(named_ranges(WEDNESDAY, None))


COSTS = pl.DataFrame(
    {
        "session_date": [date(2026, 6, day) for day in (1, 2, 2, 3)] + [date(2026, 5, 31)],
        "cost_usd": [0.25, 1.5, None, 9.0, 0.1],
    }
)


def test_the_sessions_of_unknown_cost_are_counted_apart() -> None:
    assert f"{cost_of(COSTS)}" == "Total cost: $10.85 (known for 4 of 5 sessions)."
    assert f"{cost_of(COSTS.head(2))}" == "Total cost: $1.75 (2 sessions)."
    assert f"{cost_of(COSTS[2:3])}" == "Total cost: - (known for 0 of 1 sessions)."
    assert f"{cost_of(COSTS.clear())}" == "Total cost: $0.00 (0 sessions)."


def test_times_end_with_yesterday() -> None:
    found = {
        name: (cost.total, cost.sessions, cost.unknown)
        for name, _, cost in range_costs(COSTS, date(2026, 6, 3))
    }
    assert found == {
        "yesterday": ("$1.50", 2, 1),
        "last 7 days": ("$1.85", 4, 1),
        "last 28 days": ("$1.85", 4, 1),
    }
