"""Which tool fails most, in a sentence."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.formatting import percent, whole

FEWEST_CALLS = 20
"""A tool with fewer calls is not named for its share of failures."""


Errors: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Tool -> its row of ``commonest_errors``."""


def most_failed(by_tool: pl.DataFrame, errors: Errors) -> tuple[str, str] | None:
    """Return the tool with the most failed calls and a sentence; ``None`` if none failed.

    Args:
        by_tool: Rows of ``lost_by``.
        errors: The most frequent errors.
    """
    failed = by_tool.filter(pl.col("failed") > 0, pl.col("tool").is_not_null())
    if failed.is_empty():
        return None
    shares = failed.with_columns(share=pl.col("failed") / pl.col("calls"))
    most = shares.sort(-pl.col("failed"), "tool").row(0, named=True)
    said = _failed(most, errors)
    often = shares.filter(pl.col("calls") >= FEWEST_CALLS).sort(-pl.col("share"), "tool")
    if not often.is_empty() and often["tool"][0] != most["tool"]:
        row = often.row(0, named=True)
        said += f" Highest rate ({FEWEST_CALLS}+ calls): {row['tool']}, {_failed(row, errors)}"
    return most["tool"], said


def _failed(row: Mapping[str, Any], errors: Errors) -> str:
    said = f"{whole(row['failed'])} of {whole(row['calls'])} calls ({percent(row['share'])})"
    error = errors.get(row["tool"])
    if error is None:
        return f"{said}."
    return f"{said}, {whole(error['calls'])} with {error['error'].rstrip('.')}."
