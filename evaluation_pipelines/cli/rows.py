"""Rows of a command for programs: an object with ``items`` in JSON, a heading and rows in CSV."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

import polars as pl

from evaluation_pipelines.cli.output import (
    DATA,
    OutputFormat,
    csv_text,
    format_option,
    json_text,
    print_json,
    write_output,
)

FORMAT = format_option(*DATA)
"""``--format`` of every command that prints data."""

Record = Mapping[str, Any]


def write_rows(
    rows: pl.DataFrame | Iterable[Record],
    form: OutputFormat,
    names: Sequence[str] | None = None,
    **others: object,
) -> None:
    """Print rows as JSON or CSV.

    Args:
        rows: A frame, or records with the same keys.
        form: JSON or CSV.
        names: Columns of CSV; by default those of the frame or of the first record.
        others: What JSON says in addition to ``items``.
    """
    if form is OutputFormat.CSV:
        write_output(rows_as_csv(rows, names))
        return
    items = rows.to_dicts() if isinstance(rows, pl.DataFrame) else list(rows)
    print_json({"items": items, **others})


def write_record(record: Record, form: OutputFormat) -> None:
    """Print one record as a JSON object, or as a heading and a row of CSV."""
    if form is OutputFormat.JSON:
        print_json(record)
    else:
        write_output(rows_as_csv([record]))


def rows_as_csv(rows: pl.DataFrame | Iterable[Record], names: Sequence[str] | None = None) -> str:
    """Return rows as CSV: times in ISO 8601, lists and objects as JSON in a cell."""
    if isinstance(rows, pl.DataFrame):
        names, rows = names or rows.columns, rows.iter_rows(named=True)
    records = list(rows)
    chosen = names or list(dict.fromkeys(name for record in records for name in record))
    columns = {name: [_cell(record.get(name)) for record in records] for name in chosen}
    return csv_text(pl.DataFrame(columns, strict=False))


def record_of(value: Any, *without: str) -> dict[str, Any]:
    """Return a dataclass as a dict, except ``without``."""
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no dataclass")
    return {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if field.name not in without
    }


def _cell(value: object) -> object:
    match value:
        case Enum():
            return str(value.value)
        case date() | datetime():
            return value.isoformat()
        case list() | tuple() | set() | Mapping():
            return json_text(value, indent=None).rstrip()
    return value
