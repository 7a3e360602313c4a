"""Costs of times, added by hand; 2026-06-03 is a Wednesday."""

from datetime import date

import polars as pl

from evaluation_pipelines.service.pages.domain.days import (
    cost_of,
    range_costs,
)

ROWS = pl.DataFrame(
    {
        "session_date": [date(2026, 6, day) for day in (1, 2, 2, 3)] + [date(2026, 5, 31)],
        "cost_usd": [0.25, 1.5, None, 9.0, 0.1],
    }
)


def test_the_sessions_of_unknown_cost_are_counted_apart() -> None:
    assert f"{cost_of(ROWS)}" == "Total cost: $10.85 (known for 4 of 5 sessions)."
    assert f"{cost_of(ROWS.head(2))}" == "Total cost: $1.75 (2 sessions)."
    assert f"{cost_of(ROWS[2:3])}" == "Total cost: - (known for 0 of 1 sessions)."
    assert f"{cost_of(ROWS.clear())}" == "Total cost: $0.00 (0 sessions)."


def test_times_end_with_yesterday_and_weeks_with_sunday() -> None:
    found = {
        name: (cost.total, cost.sessions, cost.unknown)
        for name, _, cost in range_costs(ROWS, date(2026, 6, 3))
    }
    assert found == {
        "yesterday": ("$1.50", 2, 1),
        "last 7 days": ("$1.85", 4, 1),
        "last week": ("$0.10", 1, 0),
        "last 28 days": ("$1.85", 4, 1),
    }
