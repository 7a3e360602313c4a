"""Convert OTLP values (AnyValue) to Python values, and Python values to column types.

Integers become int, doubles float (``NaN`` and infinities text, which JSON cannot express), arrays
list, key-value lists dict, bytes their base64 text. Anything else is None. A value that does not
fit its column ("undefined" tokens, a negative cost) is ``BROKEN``: it becomes null and is counted.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

TOO_DEEP = "(nested too deeply)"
_MAX_DEPTH = 50
INT64_MAX = 2**63 - 1

# What is larger was not measured. One such value would decide every sum that it is part of.
MAX_TOKENS = 10**9
MAX_SEQUENCE = 10**12
MAX_DURATION_MS = 30 * 24 * 3600 * 1000
MAX_COST_USD = 10_000

BROKEN: Final = object()

Convert = Callable[[Any], Any]
"""Value of an attribute -> value of a column, None if empty, or BROKEN."""

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


class AnyValue(msgspec.Struct, gc=False, rename="camel"):
    """Value of an attribute; one of its fields is set.

    Types are not enforced: a value of a wrong type is lost, but not its line.
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
    """Return the Python value of one attribute."""
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


OFFERED_TOOLS = "gen_ai.tool.definitions"
"""Attribute with the tools that an agent could call: only their names are kept."""


def plain_attributes(pairs: Iterable[KeyValue]) -> list[Any]:
    """Return the Python values of attributes, with a fast path for strings and numbers."""
    return [
        string
        if (value := pair.value) is not None and (string := value.string_value) is not None
        else number
        if value is not None and type(number := value.int_value) is int
        else plain_attribute(value)
        for pair in pairs
    ]


def plain_value(value: Any, depth: int = 0) -> Any:
    """Return the Python value of an AnyValue that was decoded as a dictionary.

    Values nested deeper than 50 levels are ``TOO_DEEP``.
    """
    if not isinstance(value, dict) or not value:
        return None
    if depth > _MAX_DEPTH:
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


def _integer(inner: Any) -> int | float | str:
    if isinstance(inner, float) and not inner.is_integer():
        return _double(inner)
    try:
        return int(inner)
    except (TypeError, ValueError):
        return str(inner)


def _double(inner: Any) -> float | str:
    """Return a finite number, or what was sent as text: no column takes it, and it is counted."""
    try:
        number = float(inner)
    except (TypeError, ValueError, OverflowError):
        return str(inner)
    return number if number - number == 0 else str(number)  # inf - inf and nan - nan are not 0


def read_attributes(pairs: Iterable[KeyValue] | None) -> dict[str, Any]:
    """Return attributes as a dict of Python values; the last of repeated keys counts."""
    return {pair.key: plain_attribute(pair.value) for pair in pairs or ()}


def as_is(value: Any) -> Any:
    """Return the value: it was converted before."""
    return value


def convert_column(values: Sequence[Any], convert: Convert) -> Sequence[Any]:
    """Convert the values of one attribute of many records."""
    if convert is as_is or (convert is text and _are_texts(values)):
        return values
    most = _WHOLE.get(convert)
    if most is not None and _are_whole(values, most):
        return values
    return [convert(value) for value in values]


def _are_texts(values: Sequence[Any]) -> bool:
    """True if all values are valid texts: not empty, without NUL characters."""
    try:
        return "\0" not in "".join(values) and all(values)
    except TypeError:
        return False


def _are_whole(values: Sequence[Any], most: int) -> bool:
    """True if all values are whole numbers from 0 to ``most``."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= most


def text(value: Any) -> str | None:
    """Return a non-empty string without NUL characters; other values as JSON text."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return _encode(value).decode()
    return value.replace("\0", "") or None if "\0" in value else value


_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)?(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL
)
_HOST = re.compile(r"[^:@]*(?::\d*)?|\[.*\](?::\d*)?")


def without_credentials(value: Any) -> str | None:
    """Return a text; if it is a URL, without user, password, query and fragment.

    ``user@host:path``, without a scheme, is a URL, too. A password that is not escaped may contain
    ``/``, ``?`` or ``#``: then everything before the last ``@`` is removed.
    """
    sent = text(value)
    found = _URL.fullmatch(sent or "")
    if sent is None or found is None or not ("/" in sent or "@" in sent):
        return sent
    scheme, authority, rest = found["scheme"] or "", found["authority"], found["rest"]
    user, _, host = authority.rpartition("@")
    if scheme and not _HOST.fullmatch(host):
        # No port follows the colon: this is a password, whose end is further on, if it has one.
        before, _, after = rest.rpartition("@")
        host, rest = ("", after) if before else (host.partition(":")[0], rest)
    elif not scheme and not user:
        host = authority  # a name such as @scope/name
    return scheme + host + re.split(r"[?#]", rest, maxsplit=1)[0] or None


def text_or_url(value: Any) -> str | None:
    """Return a text; a URL with its scheme is returned without credentials."""
    sent = text(value)
    return without_credentials(sent) if sent is not None and "://" in sent else sent


def count(value: Any, most: int = INT64_MAX) -> Any:
    """Return a whole number from 0 to ``most``, sent as a number or as digits."""
    if value is None or value == "":
        return None
    number = _number(value)
    if number is None or not 0 <= number <= most or number != int(number):
        return BROKEN
    return int(number)


def tokens(value: Any) -> Any:
    """Return a number of tokens."""
    return count(value, MAX_TOKENS)


def sequence(value: Any) -> Any:
    """Return the number of a record in its process."""
    return count(value, MAX_SEQUENCE)


_WHOLE: dict[Convert, int] = {tokens: MAX_TOKENS, sequence: MAX_SEQUENCE}


def milliseconds(value: Any) -> Any:
    """Return a duration in milliseconds, up to 30 days."""
    return _amount(value, MAX_DURATION_MS)


def dollars(value: Any) -> Any:
    """Return a cost in USD, up to 10,000."""
    return _amount(value, MAX_COST_USD)


def _amount(value: Any, most: float) -> Any:
    if value is None or value == "":
        return None
    number = _number(value)
    return BROKEN if number is None or not 0 <= number <= most else float(number)


def flag(value: Any) -> Any:
    """Return a boolean, sent as such or as the word true or false."""
    if value is None or value == "" or isinstance(value, bool):
        return None if value == "" else value
    word = value.lower() if isinstance(value, str) else value
    return word == "true" if word in ("true", "false") else BROKEN


def json_text(values: dict[str, Any]) -> str | None:
    """Return attributes as JSON text; None without attributes."""
    return _encode(values).decode() if values else None


def json_texts(rows: Iterable[dict[str, Any]]) -> list[str | None]:
    """Return the attributes of each record as JSON text; None for a record without any."""
    lines = _encode_lines(rows).decode().split("\n")
    return [line if line != "{}" else None for line in lines[:-1]]


def json_object(document: str | None) -> dict[str, Any]:
    """Parse a JSON object; empty if the text was truncated and does not parse."""
    if not document:
        return {}
    try:
        parsed = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        parsed = _with_what_json_allows(document)
    return parsed if isinstance(parsed, dict) else {}


def with_whole_characters(value: Any) -> Any:
    """Return a value of JSON with a ``?`` for each half of a character, which no file can have."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _with_what_json_allows(document: str) -> Any:
    """Parse a text with NaN, halves of characters or huge numbers; None if it is no JSON."""
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> int | float | None:
    """Return the finite number that ``value`` is or spells, otherwise None."""
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
