"""JSON that a strict parser refuses, or of which it would lose a part.

The standard library also reads NaN and numbers out of range. What else is read here: unpaired
surrogates, which JavaScript leaves when it truncates a text; values that are nested very deeply;
and lists of OTLP that a request has twice under one name. Of a text that cannot be read, the error
names what wrote it; and a text can be the beginning of a document.
"""

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection
from enum import Enum, auto
from typing import Any

import msgspec

# With the names of older versions, and in snake_case as Protobuf writes them on request.
RESOURCE_LOGS = ("resourceLogs", "resource_logs")
SCOPE_LOGS = (
    *("scopeLogs", "scope_logs"),
    *("instrumentationLibraryLogs", "instrumentation_library_logs"),
)
LOG_RECORDS = ("logRecords", "log_records", "logs")
RESOURCE_SPANS = ("resourceSpans", "resource_spans")
SCOPE_SPANS = (
    *("scopeSpans", "scope_spans"),
    *("instrumentationLibrarySpans", "instrumentation_library_spans"),
)
SPANS = ("spans",)
_LISTS = {*RESOURCE_LOGS, *SCOPE_LOGS, *LOG_RECORDS, *RESOURCE_SPANS, *SCOPE_SPANS, *SPANS}
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


UTF_16 = (
    "UTF-16, as PowerShell 5 writes with > and Tee-Object: pipe to Out-File -Encoding utf8 instead"
)
_NULS = "a run of NUL bytes, as a crash or a full disk leaves"
_VECTOR = (
    "written by Vector in its own form: set use_otlp_decoding: true on its opentelemetry source "
    "(since Vector 0.51), then its json codec writes OTLP"
)
_VECTOR_NAMES = {"resources", "attributes"}


def is_utf_16(beginning: bytes) -> bool:
    """Return True if a file or text begins with the byte order mark of UTF-16."""
    return beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE))


def encoding_reason(line: bytes) -> str | None:
    """Return why a line is no text in UTF-8; None if it is not known."""
    if is_utf_16(line):
        return UTF_16
    return _NULS if b"\0\0" in line else None


def object_reason(names: Collection[str]) -> str | None:
    """Return what wrote an object with these names; None if it is not known."""
    is_vector = "source_type" in names or set(names) >= _VECTOR_NAMES
    return _VECTOR if is_vector else None


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
