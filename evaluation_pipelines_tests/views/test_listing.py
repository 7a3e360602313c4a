"""Pages of a list: each row once, whatever happens between two of them."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.withheld import withhold
from evaluation_pipelines.views.listing import CARD_LISTING, SESSION_LISTING, CursorError
from evaluation_pipelines_tests.views.test_filters import ROWS

USUAL = SESSION_LISTING.usual_order


def page(rows: pl.DataFrame, after: str | None, order: str = USUAL) -> tuple[str, str | None]:
    shown, cursor = SESSION_LISTING.page(rows, order, after, 2)
    return "".join(shown["session_key"]), cursor


@pytest.mark.parametrize("order", [USUAL, "-cost"])
def test_pages_follow_each_other_until_the_last(order: str) -> None:
    rows = SESSION_LISTING.in_order(ROWS, order)
    first, cursor = page(rows, None, order)
    second, last = page(rows, cursor, order)
    assert (first + second, last) == ("".join(rows["session_key"]), None)


def test_the_newest_first_continue_after_a_session_that_is_gone() -> None:
    _, cursor = page(ROWS, None)  # d and c
    newer = ROWS.head(1).with_columns(session_key=pl.lit("new"))
    assert page(pl.concat([newer, ROWS.filter(pl.col("session_key") != "c")]), cursor)[0] == "ba"
    equal = ROWS.with_columns(started_at=pl.lit(ROWS["started_at"][0]))  # by their keys
    rows = equal.sort("organization_id", "session_key")
    _, cursor = page(rows, None)  # c and d of acme
    assert page(rows.filter(pl.col("session_key") != "d"), cursor)[0] == "ab"


def test_a_list_in_another_order_starts_again_after_a_session_that_is_gone() -> None:
    rows = SESSION_LISTING.in_order(ROWS, "-cost")
    _, cursor = page(rows, None, "-cost")
    with pytest.raises(CursorError, match="The list has changed"):
        page(rows.filter(pl.col("session_key") != "d"), cursor, "-cost")


@pytest.mark.parametrize("day", [10**15, -(10**9)])
def test_a_cursor_of_a_day_that_is_none_is_an_error(day: int) -> None:
    place = urlsafe_b64encode(json.dumps([day, 0, "x"]).encode()).decode()
    with pytest.raises(CursorError, match="Invalid cursor"):
        CARD_LISTING.dated_page(DATES, lambda days: cards_of(days, 1), place, 2)


@pytest.mark.parametrize("cursor", ["x", "é", "W10", "WyJhIiwgImIiLCAiYyJd", "WzEsIDIsICJjIl0"])
def test_what_is_no_cursor_is_an_error(cursor: str) -> None:
    with pytest.raises(CursorError, match="Invalid cursor"):
        page(ROWS, cursor)


DATES = [date(2026, 1, 1) + timedelta(days=number) for number in range(20)]


def cards_of(days: Sequence[date], per_day: int) -> pl.DataFrame:
    """Return cards of some dates, two of which start at the same time."""
    rows = [
        (day, datetime(day.year, day.month, day.day, number // 2, tzinfo=UTC), f"{day}-{number}")
        for day in days
        for number in range(per_day)
    ]
    names = ("session_date", "started_at", "card_id")
    schema = {name: CARD_LISTING.table.schema[name] for name in names}
    return pl.DataFrame(rows, schema, orient="row")


@pytest.mark.parametrize(("limit", "per_day"), [(1, 1), (3, 3), (7, 3), (60, 1)])
def test_pages_of_dates_have_every_row_once_the_newest_first(limit: int, per_day: int) -> None:
    seen, cursor = list[str](), None
    while True:
        rows, cursor = CARD_LISTING.dated_page(
            DATES, lambda days: cards_of(days, per_day), cursor, limit
        )
        seen += rows["card_id"].to_list()
        if cursor is None:
            break
        assert rows.height == limit
    of_day = ["1", "0"] if per_day == 1 else ["2", "0", "1"]  # the third starts an hour later
    assert seen == [f"{day}-{number}" for day in reversed(DATES) for number in of_day[-per_day:]]


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
        return cards_of(days, per_day)

    CARD_LISTING.dated_page(DATES, rows, None, 4)
    assert [len(days) for days in asked] == read
    assert asked[0] == [DATES[-1]]


def test_cells_are_formatted_unknown_or_withheld() -> None:
    rows = withhold(ROWS, {("acme", "c")}).to_dicts()
    names = ("started_at", "effective_100", "cost_usd")
    assert [[SESSION_LISTING.cell(row, name) for name in names] for row in rows] == [
        ["2026-06-04 12:00", "-", "$1.00"],
        ["2026-06-03 12:00", "awaiting review", "-"],
        ["2026-06-02 12:00", "74.0", "$3.00"],
        ["2026-06-01 12:00", "10.0", "$1.00"],
    ]
