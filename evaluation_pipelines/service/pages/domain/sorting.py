"""Orders of lists, as the URL names them: the name of a column, with ``-`` before it downwards."""

from collections.abc import Mapping

import polars as pl


def parse_order(given: str | None, columns: Mapping[str, str], usual: str) -> str:
    """Return the order that a field of a URL asks for; ``usual`` if it is empty.

    Args:
        given: The field.
        columns: Name of each order -> its column.
        usual: The order of a list that nothing else is asked of.

    Raises:
        ValueError: There is no such order.
    """
    order = given or usual
    if order.removeprefix("-") not in columns:
        raise ValueError(f"sort must be one of: {', '.join(columns)}; or one with - before it")
    return order


def in_order(rows: pl.DataFrame, order: str, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return rows in an order of :func:`parse_order`; equal ones stay as they are, null is last."""
    column, is_down = columns[order.removeprefix("-")], order.startswith("-")
    return rows.sort(column, descending=is_down, nulls_last=True, maintain_order=True)
