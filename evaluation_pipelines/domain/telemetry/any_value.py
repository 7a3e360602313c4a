"""Values of OTLP (AnyValue) as plain Python values.

Integers come as int, doubles as float (``NaN`` and infinities as None, JSON has no such value),
arrays as list, key-value lists as dict, bytes as their base64 text. What is no AnyValue is None.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

TOO_DEEP = "(nested too deeply)"
_DEEPEST = 50


class AnyValue(msgspec.Struct, gc=False, rename="camel"):
    """The value of an attribute, of which one kind is filled.

    Nothing is said of the types: a wrong one costs its value, never its line.
    """

    string_value: Any = None
    int_value: Any = None
    double_value: Any = None
    bool_value: Any = None
    bytes_value: Any = None
    array_value: Any = None
    kvlist_value: Any = None


class KeyValue(msgspec.Struct, gc=False):
    """One attribute."""

    key: str
    value: AnyValue | None = None


def plain_attribute(value: AnyValue | None) -> Any:
    """The plain value of one attribute."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _integer(value.int_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.double_value is not None:
        return _double(value.double_value)
    if value.array_value is not None:
        return [plain_value(item, 1) for item in _items(value.array_value)]
    if value.kvlist_value is not None:
        return _pairs(value.kvlist_value, 1)
    return value.bytes_value


def plain_attributes(pairs: Iterable[KeyValue]) -> list[Any]:
    """The plain values of attributes; nine of ten are strings, which are taken as they are."""
    return [
        string
        if (value := pair.value) is not None and (string := value.string_value) is not None
        else plain_attribute(value)
        for pair in pairs
    ]


def plain_value(value: Any, depth: int = 0) -> Any:
    """The plain value of an AnyValue that was decoded as a dictionary: a body, or a nested one.

    What is nested too deeply to be meant is ``TOO_DEEP``.
    """
    if not isinstance(value, dict) or not value:
        return None
    if depth > _DEEPEST:
        return TOO_DEEP
    kind, inner = next(iter(value.items()))
    match kind:
        case "stringValue" | "boolValue" | "bytesValue":
            return inner
        case "intValue":
            return _integer(inner)
        case "doubleValue":
            return _double(inner)
        case "arrayValue":
            return [plain_value(item, depth + 1) for item in _items(inner)]
        case "kvlistValue":
            return _pairs(inner, depth + 1)
    return None


def _pairs(inner: Any, depth: int) -> dict[str, Any]:
    return {
        str(item.get("key")): plain_value(item.get("value"), depth)
        for item in _items(inner)
        if isinstance(item, dict)
    }


def _items(inner: Any) -> list[Any]:
    items = inner.get("values") if isinstance(inner, dict) else None
    return items if isinstance(items, list) else []


def _integer(inner: Any) -> int | float | str | None:
    if isinstance(inner, float) and not inner.is_integer():
        return _double(inner)
    try:
        return int(inner)
    except (TypeError, ValueError):
        return str(inner)


def _double(inner: Any) -> float | None:
    try:
        number = float(inner)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number - number == 0 else None  # inf - inf and nan - nan are not 0
