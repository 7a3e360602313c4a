"""Sessions whose reported cost is not what their tokens cost by the list price."""

from dataclasses import dataclass

import polars as pl

COST_COLUMNS = (
    *("source_cli", "organization_id", "session_id"),
    *("cost_source", "cost_usd", "list_price_usd"),
)

IS_CHECKED = (pl.col("cost_source") == "reported") & pl.col("list_price_usd").is_not_null()
"""Whether a request has both a reported cost and a list price."""

_TOLERANCE = 0.1
"""Share of the list price by which a cost may differ."""

_ROUNDING_USD = 1e-9


@dataclass(frozen=True, slots=True)
class CostCheck:
    """Number of sessions with both costs, and of those whose costs differ by more than a tenth."""

    sessions: int = 0
    off: int = 0


def cost_checks(requests: pl.DataFrame) -> dict[str, CostCheck]:
    """Return the check of each agent program.

    Args:
        requests: COST_COLUMNS of events that are IS_CHECKED.
    """
    cost, price = pl.col("cost_usd").sum(), pl.col("list_price_usd").sum()
    found = (
        requests.drop_nulls("source_cli")
        .group_by("source_cli", "organization_id", "session_id")
        .agg(is_off=(cost - price).abs() > _TOLERANCE * price + _ROUNDING_USD)
        .group_by("source_cli")
        .agg(sessions=pl.len(), off=pl.col("is_off").sum())
    )
    return {program: CostCheck(number, off) for program, number, off in found.iter_rows()}
