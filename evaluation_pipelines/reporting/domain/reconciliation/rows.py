"""Rows of the books: evaluations, each with its state and the cost of its scorings."""

from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.states import Booking
from evaluation_pipelines.schemas import EVALUATION_BOOKS

SCORINGS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "scorings": pl.Int64(),
        "judge_cost_usd": pl.Float64(),
    }
)
"""Count scorings by session window; the cost is null if a price is unknown."""


def book_rows(
    evaluations: pl.DataFrame, bookings: Sequence[Booking], scorings: pl.DataFrame
) -> pl.DataFrame:
    """EVALUATION_BOOKS.

    Args:
        evaluations: rows of ``session_evaluations``.
        bookings: the booking of each of them, in their order.
        scorings: SCORINGS; windows without any are absent.
    """
    table = EVALUATION_BOOKS
    never = pl.col("scorings").is_null()
    return (
        evaluations.lazy()
        .with_columns(
            pl.Series("state", [each.state for each in bookings], pl.String),
            pl.Series("reason", [each.reason for each in bookings], pl.String),
            pl.Series("what_next", [each.what_next for each in bookings], pl.String),
        )
        .join(scorings.lazy(), on=["organization_id", "session_key"], how="left", validate="1:1")
        .with_columns(
            judge_cost_usd=pl.when(never).then(0.0).otherwise("judge_cost_usd"),
            scorings=pl.col("scorings").fill_null(0),
        )
        .select(table.schema.names())
        .cast(table.schema)
        .sort(table.order)
        .collect()
    )
