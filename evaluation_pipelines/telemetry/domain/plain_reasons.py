"""Messages of the parsers of lines, in plain words."""

import re

_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `([^`]+)`)?")
_JSON_PLACE = re.compile(r": line \S+ column \S+ \(char (\d+|N)\)")
"""Places in messages of JSON parsers, with digits or N."""


def plain_reason(reason: str) -> str:
    """Return a reason with parser messages in plain words."""
    return _JSON_PLACE.sub(_place, _WRONG_TYPE.sub(_wrong_type, reason))


def _place(found: re.Match[str]) -> str:
    return "" if found[1] == "N" else f" (character {int(found[1]):,})"


def _wrong_type(found: re.Match[str]) -> str:
    expected, got, place = found.groups()
    return f"{place or 'a field'} has the wrong type: {got}, not {expected}"
