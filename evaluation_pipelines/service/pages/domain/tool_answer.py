"""Which tool fails most, in a sentence."""

import polars as pl

from evaluation_pipelines.formatting import percent

FEWEST_CALLS = 20
"""A tool with fewer calls is not named for its share of failures."""


def most_failed(by_tool: pl.DataFrame) -> tuple[str, str] | None:
    """Return the tool with the most failed calls and a sentence; ``None`` if none failed.

    Args:
        by_tool: Rows of ``lost_by``.
    """
    failed = by_tool.filter(pl.col("failed") > 0, pl.col("tool").is_not_null())
    if failed.is_empty():
        return None
    shares = failed.with_columns(share=pl.col("failed") / pl.col("calls"))
    most = shares.sort(-pl.col("failed"), "tool").row(0, named=True)
    said = f"{percent(most['share'])}."
    often = shares.filter(pl.col("calls") >= FEWEST_CALLS).sort(-pl.col("share"), "tool")
    if not often.is_empty() and often["tool"][0] != most["tool"]:
        rate = percent(often["share"][0])
        said += f" Highest rate: {often['tool'][0]}, {rate}."
    return most["tool"], said
