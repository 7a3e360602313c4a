"""Tables without what people, models and tools wrote; figures stay."""

import polars as pl

from evaluation_pipelines.schemas import (
    JUDGE_SCORES,
    SCORECARDS,
    TOOL_REPORT_TEXTS,
    TOOL_REPORTS,
    Table,
)

TEXT_COLUMNS = {
    JUDGE_SCORES.name: ("score_analysis", "missing_tools_analysis", "failed_reply"),
    SCORECARDS.name: ("reasoning",),
}
"""Columns with texts, by table; event texts are a table of their own."""


def without_texts(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return rows of a table with null in place of texts."""
    if table is TOOL_REPORTS:
        return rows.with_columns(
            pl.col(column).list.eval(
                pl.element().struct.with_fields(
                    *(pl.lit(None, pl.String).alias(name) for name in names)
                )
            )
            for column, names in TOOL_REPORT_TEXTS.items()
        ).cast(table.schema)
    nulls = (pl.lit(None, pl.String).alias(name) for name in TEXT_COLUMNS.get(table.name, ()))
    return rows.with_columns(nulls)
