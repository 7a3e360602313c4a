"""Values of OTLP (AnyValue) as plain Python values.

Integers come as int, doubles as float (``NaN`` and infinities as None, JSON has no such value),
arrays as list, key-value lists as dict, bytes as their base64 text. What is no AnyValue is None.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

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


INT64_MAX = 2**63 - 1

BROKEN: Final = object()

Convert = Callable[[Any], Any]
"""Value of an attribute -> value of a column, None when it is empty, or BROKEN."""

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


def read_attributes(pairs: Iterable[KeyValue] | None) -> dict[str, Any]:
    """Attributes as a dict of plain values; of a repeated key the last one counts."""
    return {pair.key: plain_attribute(pair.value) for pair in pairs or ()}


def convert_column(values: Sequence[Any], convert: Convert) -> Sequence[Any]:
    """Convert the values of one attribute of many records; those that need nothing stay."""
    if (convert is text and _are_texts(values)) or (convert is count and _are_counts(values)):
        return values
    return [convert(value) for value in values]


def _are_texts(values: Sequence[Any]) -> bool:
    """Whether all values are texts as columns hold them: not empty, without NUL characters."""
    try:
        return "\0" not in "".join(values) and all(values)
    except TypeError:
        return False


def _are_counts(values: Sequence[Any]) -> bool:
    """Whether all values are whole numbers as columns hold them."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= INT64_MAX


def text(value: Any) -> str | None:
    """A non-empty string without NUL characters (no database takes them); others as JSON text."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return _encode(value).decode()
    return value.replace("\0", "") or None if "\0" in value else value


def count(value: Any) -> Any:
    """A whole number, 0 or more (tokens, sequence), sent as a number or as digits."""
    if value is None or value == "":
        return None
    number = _number(value)
    if number is None or not 0 <= number <= INT64_MAX or number != int(number):
        return BROKEN
    return int(number)


def amount(value: Any) -> Any:
    """A number, 0 or more (durations, money)."""
    if value is None or value == "":
        return None
    number = _number(value)
    return BROKEN if number is None or number < 0 else float(number)


def flag(value: Any) -> Any:
    """A boolean, or the word true or false."""
    if value is None or value == "" or isinstance(value, bool):
        return None if value == "" else value
    word = value.lower() if isinstance(value, str) else value
    return word == "true" if word in ("true", "false") else BROKEN


def json_text(values: dict[str, Any]) -> str | None:
    """JSON text of some attributes; None when there is none."""
    return _encode(values).decode() if values else None


def json_texts(rows: Iterable[dict[str, Any]]) -> list[str | None]:
    """JSON text of the attributes of each record; None where there is none."""
    lines = _encode_lines(rows).decode().split("\n")
    return [line if line != "{}" else None for line in lines[:-1]]


def json_object(document: str | None) -> dict[str, Any]:
    """The JSON object in a text; empty when it was cut off and does not parse any more."""
    if not document:
        return {}
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _number(value: Any) -> int | float | None:
    """The finite number that ``value`` is or spells, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) <= INT64_MAX else None
    if isinstance(value, str):
        if value.isascii() and value.isdigit():
            return int(value) if len(value) <= 19 else None
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float):
        return value if value - value == 0 else None
    return None
