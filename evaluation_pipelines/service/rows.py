"""Rows of tables as JSON, and their models in the OpenAPI document."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime
from functools import cache
from math import isfinite
from typing import Any

import polars as pl
from pydantic import BaseModel, Field, create_model

from evaluation_pipelines.schemas import Table

_PAIR = ["key", "value"]
_TYPES: dict[type[pl.DataType], Any] = {
    pl.String: str,
    pl.Int64: int,
    pl.Int32: int,
    pl.Float64: float,
    pl.Boolean: bool,
    pl.Datetime: datetime,
    pl.Date: date,
}


def json_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values: :func:`json_value` of each cell."""
    return [json_row(row) for row in rows.iter_rows(named=True)]


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values."""
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: object) -> Any:
    """Return a JSON value: times as RFC 3339 in UTC, pairs of key and value as an object.

    What no JSON number can say, the sum of absurd values, is null.
    """
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if not isfinite(value):
            return None
        case dict():
            return json_row(value)
        case list() | tuple():
            if value and all(isinstance(each, dict) and [*each] == _PAIR for each in value):
                return {each["key"]: json_value(each["value"]) for each in value}
            return [json_value(each) for each in value]
    return value


def without(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a row in which these fields are null, in lists of objects, too."""
    return {name: None if name in names else _without(value, names) for name, value in row.items()}


def _without(value: object, names: Collection[str]) -> Any:
    match value:
        case dict():
            return without(value, names)
        case list():
            return [_without(each, names) for each in value]
    return value


@cache
def row_model(table: Table, hidden: frozenset[str] = frozenset()) -> type[BaseModel]:
    """Return the model of a row of a table for the OpenAPI document, with the columns' meanings."""
    fields = {
        each.name: (_type(each.dtype, each.name), Field(description=each.description))
        for each in table.columns
        if each.name not in hidden
    }
    return create_model(_camel(table.name), __doc__=table.grain, **fields)  # type: ignore[call-overload, no-any-return]


def camel_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names of its fields in camel case, as JSON values."""
    return {camel(name): json_value(value) for name, value in row.items()}


def camel(name: str) -> str:
    """Return a name in camel case: ``cost_usd`` is ``costUsd``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _type(dtype: pl.DataType, name: str) -> Any:
    match dtype:
        case pl.List(inner=pl.Struct() as pair) if [each.name for each in pair.fields] == _PAIR:
            # Without pairs it is an empty list.
            return dict[str, _type(pair.fields[1].dtype, name)] | list[str] | None  # type: ignore[misc, arg-type]
        case pl.List(inner=inner):
            return list[_type(inner, name)] | None  # type: ignore[misc, arg-type]
        case pl.Struct(fields=parts):
            return _struct(name, parts) | None
    return _TYPES[dtype.base_type()] | None


def _struct(name: str, parts: Iterable[pl.Field]) -> Any:
    fields = {each.name: (_type(each.dtype, each.name), ...) for each in parts}  # type: ignore[arg-type]
    return create_model(_camel(name), **fields)  # type: ignore[call-overload]


def _camel(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))
