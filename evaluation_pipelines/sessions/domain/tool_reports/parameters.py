"""Parameters of tool calls: what of them counts, and how similar those of two calls are."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from rapidfuzz import fuzz

VOLATILE = frozenset(("description", "timeout"))
"""Names that say nothing about what a call does: they may differ between equal calls."""
DIGEST = frozenset(("bash_command", "mcp_server_name", "mcp_tool_name"))
"""Names that a source adds to tell the tool, not what it was called with."""
SIMILAR = 0.9
"""From this similarity on two calls count as the same."""
LONGEST_TEXT = 1000
"""Letters of a text that are compared: of a longer one half from its beginning, half its end."""

Value = tuple[bool, str]
"""Whether a value is a text, and the text, or else its JSON with sorted keys."""
Parameters = Mapping[str, Value]


def read_parameters(logged: str) -> Parameters | None:
    """What a call was called with, by name; None when only a digest of it was logged.

    Logged text that is no JSON object is the one parameter ``""``.
    """
    try:
        decoded = msgspec.json.decode(logged)
    except (msgspec.DecodeError, RecursionError):
        decoded = logged
    if not isinstance(decoded, dict):
        return {"": _value(decoded)}
    told = {name: value for name, value in decoded.items() if name not in DIGEST}
    if decoded and not told:
        return None
    return {name: _value(value) for name, value in told.items() if name not in VOLATILE}


def similarity(one: Parameters, other: Parameters) -> float:
    """How similar two calls of the same tool are, from 0 to 1.

    The mean over the union of their names: texts by ``rapidfuzz.fuzz.ratio`` / 100, other values 1
    when equal, else 0; a name that one of them lacks is 0. Two calls without parameters are equal.
    """
    names = one.keys() | other.keys()
    if not names:
        return 1.0
    # Sorted, so that the same calls give the same last bit.
    return sum(_similarity(one.get(name), other.get(name)) for name in sorted(names)) / len(names)


def is_similar(score: float) -> bool:
    """Whether a similarity reaches the limit; nine decimals, to undo floating noise."""
    return round(score, 9) >= SIMILAR


def cut(text: str) -> str:
    """What is compared of a text."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else text[:half] + text[-half:]


def texts_in(logged: str) -> list[str]:
    """All texts in the parameters of a call, however deep, in their order."""
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


def _similarity(one: Value | None, other: Value | None) -> float:
    if one == other:
        return 1.0
    if one is None or other is None or not (one[0] and other[0]):
        return 0.0
    a, b = one[1], other[1]
    # What was cut out may differ in length: no more alike than the lengths allow.
    return min(fuzz.ratio(cut(a), cut(b)) / 100, 2 * min(len(a), len(b)) / (len(a) + len(b)))


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
