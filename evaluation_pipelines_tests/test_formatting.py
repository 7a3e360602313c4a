"""Numbers as people read them."""

import pytest

from evaluation_pipelines.formatting import usd


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
