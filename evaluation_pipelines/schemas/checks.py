"""Checks that a table must meet, date by date, and their results."""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from evaluation_pipelines.schemas import Table

EXAMPLES = 5
"""Number of offending rows in a result."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check on one date of one table.

    A failed check with severity ``error`` keeps the date from being published.
    """

    table: str
    rule: str
    passed: bool
    expected: str
    found: str
    examples: tuple[str, ...] = ()
    severity: Severity = "error"


def keys_are_unique(frame: pl.DataFrame, table: Table) -> CheckResult:
    """No two rows share the table's key."""
    keys = frame.select(table.key)
    if keys.n_unique() == keys.height:  # to find out which ones repeat takes far longer
        keys = keys.clear()
    repeated = keys.group_by(table.key).len("rows").filter(pl.col("rows") > 1).sort(table.key)
    return CheckResult(
        table.name,
        "keys_are_unique",
        repeated.is_empty(),
        f"one row per {', '.join(table.key)}",
        f"{repeated.height} keys that several rows share",
        examples_of(repeated),
    )


def examples_of(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return the first rows as texts."""
    shown = (
        ", ".join(each.hex() if isinstance(each, bytes) else str(each) for each in row)
        for row in rows.head(EXAMPLES).iter_rows()
    )
    return tuple(shown)
