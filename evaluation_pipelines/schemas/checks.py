"""Rules that a table must keep, date by date, and what a breach looks like."""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from evaluation_pipelines.schemas import Table

EXAMPLES = 5
"""How many offending rows a result shows."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What checking one rule on one date of one table gave.

    A broken rule of severity ``error`` keeps the date from being published.
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
    """The first rows as texts."""
    shown = (
        ", ".join(each.hex() if isinstance(each, bytes) else str(each) for each in row)
        for row in rows.head(EXAMPLES).iter_rows()
    )
    return tuple(shown)
