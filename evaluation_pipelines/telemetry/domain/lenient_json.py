"""JSON that a strict parser refuses, or of which it would lose a part.

The standard library also reads NaN and numbers out of range. What else is read here: unpaired
surrogates, which JavaScript leaves when it truncates a text; values that are nested very deeply;
and lists of OTLP that a request has twice under one name.
"""

import json
import re
from typing import Any

from evaluation_pipelines.telemetry.domain.known_shapes import encoding_reason

# With the names of older versions, and in snake_case as Protobuf writes them on request.
RESOURCE_LOGS = ("resourceLogs", "resource_logs")
SCOPE_LOGS = (
    *("scopeLogs", "scope_logs"),
    *("instrumentationLibraryLogs", "instrumentation_library_logs"),
)
LOG_RECORDS = ("logRecords", "log_records", "logs")
_LISTS = {*RESOURCE_LOGS, *SCOPE_LOGS, *LOG_RECORDS}
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DEPTH = 200
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_REPLACED = {b"{": b'{"stringValue":"(nested too deeply)"}', b"[": b"[]"}


class MalformedLineError(ValueError):
    """The whole line cannot be read; ``is_not_json`` if parts of it may be."""

    def __init__(self, reason: str, *, is_not_json: bool = False) -> None:
        super().__init__(reason)
        self.is_not_json = is_not_json


def parse_leniently(line: bytes) -> list[Any]:
    r"""Return the object of a line, or the elements of an array, of which some are objects.

    An unpaired surrogate becomes its escape as text, ``\ud800``, so that two different texts stay
    different.

    Raises:
        MalformedLineError: The line is not UTF-8, not JSON, or neither an object nor an array with
            any.
    """
    try:
        document = _parse(line)
    except UnicodeDecodeError as error:
        reason = encoding_reason(line) or f"not UTF-8 at byte {error.start}"
        raise MalformedLineError(reason, is_not_json=True) from error
    except MalformedLineError:
        raise
    except ValueError as error:
        reason = encoding_reason(line) or f"not JSON: {error}"
        raise MalformedLineError(reason, is_not_json=True) from error
    requests = document if isinstance(document, list) else [document]
    if requests and not any(isinstance(request, dict) for request in requests):
        raise MalformedLineError("not an OTLP request: expected a JSON object")
    return requests


def _parse(line: bytes) -> Any:
    try:
        return _loads(line.decode("utf-8"))
    except RecursionError as error:
        try:
            return _loads(without_deep_values(line).decode("utf-8"))
        except (ValueError, RecursionError):
            raise MalformedLineError("nested too deeply", is_not_json=True) from error


def _loads(text: str) -> Any:
    document = json.loads(text, object_pairs_hook=_joined)
    # In all texts at once: surrogates are read one by one, and cannot be written.
    dumped = json.dumps(document, ensure_ascii=False)
    escaped = _SURROGATE.sub(lambda found: rf"\\u{ord(found.group()):04x}", dumped)
    return document if escaped == dumped else json.loads(escaped)


def _joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a repeated name the last value counts, but OTLP lists are joined."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        known = found.get(name) if name in _LISTS else None
        found[name] = value if known is None else [*_listed(known), *_listed(value)]
    return found


def _listed(value: Any) -> list[Any]:
    """Return the elements of a list; what is none is one broken element."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def without_deep_values(line: bytes) -> bytes:
    """Replace the objects and arrays below a depth that no telemetry needs."""
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(line):
        bracket = token.group()
        if bracket in (b"{", b"["):
            depth += 1
            if depth == _MAX_DEPTH:
                kept += [line[start : token.start()], _REPLACED[bracket]]
        elif bracket in (b"}", b"]"):
            if depth == _MAX_DEPTH:
                start = token.end()
            depth -= 1
    return b"".join(kept) + line[start:] if depth == 0 else line
