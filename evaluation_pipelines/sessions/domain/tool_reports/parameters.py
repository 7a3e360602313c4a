"""Parameters of tool calls."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

VOLATILE = frozenset(("description", "timeout"))
"""Parameters that do not affect what a call does: they may differ between equal calls."""
DIGEST = frozenset(("bash_command", "mcp_server_name", "mcp_tool_name"))
"""Names that a source adds to identify the tool; they are not parameters."""
MAX_COMPARED_CHARACTERS = 1000
"""Length of the compared part of a text: one half from its beginning, one half from its end."""

Value = tuple[bool, str]
"""Whether a value is a text, and the text or else its JSON with sorted keys."""
Parameters = Mapping[str, Value]


class ParameterSet(Parameters):
    """Parameters that can be the key of a dictionary, in half the memory of one.

    ``names`` is sorted, and the same object for all sets with the same names.
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: tuple[Value, ...]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, name: str) -> Value:
        for each, value in zip(self._names, self._values, strict=True):
            if each == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ParameterSet):
            return (self._names, self._values) == (other._names, other._values)
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self._names, self._values))


def read_parameters(logged: str) -> Parameters | None:
    """Return the parameters of a call by name; ``None`` if only a digest of them was logged.

    Logged text that is not a JSON object is the single parameter ``""``.
    """
    try:
        decoded = msgspec.json.decode(logged)
    except (msgspec.DecodeError, RecursionError):
        decoded = logged
    if not isinstance(decoded, dict):
        return {"": _value(decoded)}
    logged_values = {name: value for name, value in decoded.items() if name not in DIGEST}
    if decoded and not logged_values:
        return None
    return {name: _value(value) for name, value in logged_values.items() if name not in VOLATILE}


def truncate(text: str) -> str:
    """Return the part of a text that is compared."""
    half = MAX_COMPARED_CHARACTERS // 2
    return text if len(text) <= MAX_COMPARED_CHARACTERS else text[:half] + text[-half:]


def texts_in(logged: str) -> list[str]:
    """Return all texts in the parameters of a call, at any depth, in their order."""
    try:
        decoded = msgspec.json.decode(logged)
    except (msgspec.DecodeError, RecursionError):
        return [logged]
    if isinstance(decoded, dict):
        decoded = {name: decoded[name] for name in decoded if name not in VOLATILE | DIGEST}
    return list(_texts(decoded))


def _value(value: Any) -> Value:
    if isinstance(value, str):
        return True, value
    return False, msgspec.json.encode(value, order="deterministic").decode()


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
