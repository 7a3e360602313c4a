"""Which tool fails most: by number and by share."""

import polars as pl

from evaluation_pipelines.service.pages.domain.tool_answer import most_failed

ERRORS = {"Bash": {"calls": 174, "error": "exit code 2"}}


def tools(*rows: tuple[str | None, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["tool", "calls", "failed"], orient="row")


def test_the_tool_with_the_most_failures_and_the_one_that_fails_most_often() -> None:
    rows = [("Bash", 1200, 226), ("Edit", 40, 30), ("Rare", 19, 19), (None, 900, 800)]
    said = (
        "226 of 1,200 calls (19%), 174 with exit code 2. "
        "Highest rate (20+ calls): Edit, 30 of 40 calls (75%)."
    )
    assert most_failed(tools(*rows), ERRORS) == ("Bash", said)


def test_one_tool_is_named_once_and_none_without_failures() -> None:
    assert most_failed(tools(("Bash", 100, 50), ("Read", 90, 0)), {}) == (
        "Bash",
        "50 of 100 calls (50%).",
    )
    assert most_failed(tools(("Bash", 100, 0)), {}) is None
