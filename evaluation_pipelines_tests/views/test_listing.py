"""Pages of a list: each row once, whatever happens between two of them."""

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.withheld import withhold
from evaluation_pipelines.views.listing import SESSION_LISTING, CursorError
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


@pytest.mark.parametrize("cursor", ["x", "é", "W10", "WyJhIiwgImIiLCAiMjAyNiJd"])
def test_what_is_no_cursor_is_an_error(cursor: str) -> None:
    with pytest.raises(CursorError, match="Invalid cursor"):
        page(ROWS, cursor)


def test_cells_are_formatted_unknown_or_withheld() -> None:
    rows = withhold(ROWS, {("acme", "c")}).to_dicts()
    names = ("started_at", "effective_100", "cost_usd")
    assert [[SESSION_LISTING.cell(row, name) for name in names] for row in rows] == [
        ["2026-06-04 12:00", "-", "$1.00"],
        ["2026-06-03 12:00", "awaiting review", "-"],
        ["2026-06-02 12:00", "74.0", "$3.00"],
        ["2026-06-01 12:00", "10.0", "$1.00"],
    ]
