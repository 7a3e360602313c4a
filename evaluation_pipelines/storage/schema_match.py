"""Parquet files and frames next to the schema of their table."""

import polars as pl

from evaluation_pipelines.schemas import Table


def scanned(files: list[bytes], table: Table) -> pl.LazyFrame:
    """Return the rows of files as the schema of their table says; missing columns are null.

    Columns that the table has dropped since are left out.
    """
    return pl.scan_parquet(
        files,
        schema=table.schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
    )


def difference(given: pl.Schema, wanted: pl.Schema) -> str:
    """Return the columns that differ, in words."""
    wrong = [
        f"{name} is {given.get(name, 'missing')}, not {wanted.get(name, 'a column')}"
        for name in {**wanted, **given}
        if given.get(name) != wanted.get(name)
    ]
    return "; ".join(wrong) or "the columns are in another order"
