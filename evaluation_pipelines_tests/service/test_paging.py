"""Pages of rows of many dates: every row once, and no date is read before it is needed."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.service.paging import PageRequest, newest_page

FIRST = date(2026, 1, 1)
DATES = [FIRST + timedelta(days=number) for number in range(20)]


def rows_of(days: Sequence[date], per_day: int) -> pl.DataFrame:
    """Return rows of some dates, two of which start at the same time."""
    rows = [
        (day, datetime(day.year, day.month, day.day, number // 2, tzinfo=UTC), f"{day}-{number}")
        for day in days
        for number in range(per_day)
    ]
    schema = pl.Schema({"session_date": pl.Date(), "started_at": UTC_TIME, "id": pl.String()})
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize("limit", [1, 3, 7, 60])
@pytest.mark.parametrize("per_day", [1, 3])
def test_pages_have_every_row_once_the_newest_first(limit: int, per_day: int) -> None:
    seen, page = list[str](), PageRequest(limit)
    while True:
        rows, cursor = newest_page(DATES, lambda days: rows_of(days, per_day), ("id",), page)
        seen += rows["id"].to_list()
        if cursor is None:
            break
        assert rows.height == limit
        page = PageRequest(limit, cursor)
    expected = rows_of(DATES, per_day).sort(
        ["session_date", "started_at", "id"], descending=[True, True, False]
    )
    assert seen == expected["id"].to_list()


@pytest.mark.parametrize(
    ("per_day", "read"),
    [
        (5, [1]),  # more than a page of 4
        (2, [1, 2]),
        (0, [1, 2, 4, 8, 5]),  # all 20: there may be rows in any of them
    ],
)
def test_no_date_is_read_before_it_is_needed(per_day: int, read: list[int]) -> None:
    asked = list[Sequence[date]]()

    def rows(days: Sequence[date]) -> pl.DataFrame:
        asked.append(days)
        return rows_of(days, per_day)

    newest_page(DATES, rows, ("id",), PageRequest(4))
    assert [len(days) for days in asked] == read
    assert asked[0] == [DATES[-1]]
