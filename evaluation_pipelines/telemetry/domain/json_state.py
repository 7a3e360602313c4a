"""Whether a text is a complete JSON document, the beginning of one, or neither."""

import json
from enum import Enum, auto

import msgspec

from evaluation_pipelines.telemetry.domain.lenient_json import without_deep_values

_PADDING = b" " * 8
"""The strict parser calls an unpaired surrogate at the end truncated."""


class JsonState(Enum):
    """State of a text."""

    COMPLETE = auto()
    TRUNCATED = auto()
    BROKEN = auto()


def json_state(text: bytes) -> JsonState:
    """Return the state of a text that ends with a line.

    COMPLETE is an object or array that a line may be: also with NaN, unpaired surrogates or deep
    nesting, which a strict parser refuses. No proper prefix of a document is COMPLETE, and with
    more lines a BROKEN text stays so. TRUNCATED means nothing for a text that ends within a line:
    ``1.`` is no number.
    """
    try:
        return _container(msgspec.json.decode(text + _PADDING))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return JsonState.TRUNCATED if "truncated" in str(error) else _leniently(text)
    except RecursionError:
        return _leniently(without_deep_values(text))


def _leniently(text: bytes) -> JsonState:
    try:
        decoded = text.decode("utf-8")
        return _container(json.loads(decoded))
    except json.JSONDecodeError as error:
        # A newline in a text is also found at the end, and no document goes on after it.
        is_in_text = error.msg.startswith("Invalid control character")
        is_at_end = error.pos >= len(decoded.rstrip())
        return JsonState.TRUNCATED if is_at_end and not is_in_text else JsonState.BROKEN
    except (UnicodeDecodeError, RecursionError):
        return JsonState.BROKEN


def _container(document: object) -> JsonState:
    return JsonState.COMPLETE if isinstance(document, dict | list) else JsonState.BROKEN
