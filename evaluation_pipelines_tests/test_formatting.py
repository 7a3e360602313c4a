"""Numbers and ages as people read them."""

from datetime import timedelta

import pytest

from evaluation_pipelines.formatting import age, pluralize, usd
from evaluation_pipelines_tests.workplace import NOW


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "$0.00"),
        (0.00002, "<$0.0001"),
        (0.00005, "$0.0001"),
        (0.0123, "$0.012"),
        (1.0, "$1.00"),
    ],
)
def test_dollars_have_the_decimals_that_they_need(value: float | None, shown: str) -> None:
    assert usd(value) == shown


def test_counts_have_separators() -> None:
    shown = [pluralize(number, "line") for number in (0, 1, 2_000)]
    assert shown == ["0 lines", "1 line", "2,000 lines"]


def test_an_age_is_in_the_largest_unit_of_which_there_are_two() -> None:
    minutes = (0, 119, 120, 2_879, 2_880, 14_399)
    shown = ["0 min ago", "119 min ago", "2 h ago", "47 h ago", "2 days ago", "9 days ago"]
    # Half a minute more is rounded down.
    assert [age(NOW - timedelta(minutes=number + 0.5), NOW) for number in minutes] == shown
    assert age(None, NOW) is None
