"""Which tool fails most: by number and by share."""

import polars as pl

from evaluation_pipelines.service.pages.tools import most_failed


def tools(*rows: tuple[str | None, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["tool", "calls", "failed"], orient="row")


def test_the_tool_with_the_most_failures_and_the_one_that_fails_most_often() -> None:
    rows = [("Bash", 1200, 226), ("Edit", 40, 30), ("Rare", 19, 19), (None, 900, 800)]
    # 226 / 1200 = 18.8%, 30 / 40
    said = "19%. Highest rate: Edit, 75%."
    assert most_failed(tools(*rows)) == ("Bash", said)


def test_one_tool_is_named_once_and_none_without_failures() -> None:
    assert most_failed(tools(("Bash", 100, 50), ("Read", 90, 0))) == ("Bash", "50%.")
    assert most_failed(tools(("Bash", 100, 0))) is None
