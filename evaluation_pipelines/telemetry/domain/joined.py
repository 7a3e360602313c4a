"""Requests that follow each other without a newline, next to what a crash or rotation left.

So do records as the JavaScript SDK holds them, which become OTLP here. Gemini CLI (``outfile``) and
Copilot Chat (file exporter) write the objects of the SDK as JSON: log records, spans and metrics in
one file. Private fields differ between versions of the SDK: ``body`` or ``_body``, attributes of a
resource as an object or as pairs.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from evaluation_pipelines.telemetry.domain.lenient_json import JsonState, json_state

_BEGINNING = re.compile(
    rb'(?<=\})\s*(?=\{\s*"\w)'
    rb'|(?=\{\s*"(?:resource(?:Logs|Metrics|Spans|_logs|_metrics|_spans)?'
    rb'|hrTime(?:Observed)?|session_id)"\s*:)'
)
"""Where a document may begin behind a broken one. In a text, a quotation mark would be escaped."""

_PART = re.compile(rb'\{\s*"resource"')
"""How objects of the SDK begin, and also parts of a request."""

_BETWEEN = re.compile(rb"(?:[\s,\[\]\x1e]|\xef\xbb\xbf)*")
"""White space, brackets and commas of an array, record separators, byte order marks."""

_SEPARATORS = b" \t\r\n,[]\x1e"
_MOST_READ_IN_VAIN = 8
"""Times the length of a text that is read for documents that turn out to be broken."""

_COUNTED_PER_READ = 16
"""Bytes that are counted, for the line of an error, in the time that one is read."""

_LONGEST_ESCAPE = 16
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def pieces_of(text: bytes) -> list[tuple[int, bytes]]:
    """Return the documents of a text that is not one, and what is between them, with offsets.

    Without any document the text is one piece.
    """
    found, rest = list[tuple[int, bytes]](), 0
    for start, end in _documents(text):
        found += [*_broken(text, rest, start), (start, text[start:end])]
        rest = end
    return [*found, *_broken(text, rest, len(text))] if found else [(0, text)]


def documents_end(text: bytes) -> int:
    """Return where the last whole document ends in a text that may go on; 0 without any."""
    if json_state(text) is JsonState.COMPLETE:
        return len(text)
    if text.lstrip().startswith(b"["):
        return 0
    ends = [end for _, end in _documents(text, may_go_on=True)]
    return _after_separators(text, ends[-1]) if ends else 0


def _broken(text: bytes, start: int, end: int) -> list[tuple[int, bytes]]:
    """Return what a range holds, without separators, if anything."""
    start = _after_separators(text, start)
    piece = text[start:end].rstrip(_SEPARATORS)
    return [(start, piece)] if piece else []


def _documents(text: bytes, *, may_go_on: bool = False) -> Iterator[tuple[int, int]]:
    """Yield start and end of each object in a text; parts of a broken one are none.

    A text that ``may_go_on`` is read up to where the rest may become a document.
    """
    readable = text.decode("latin-1")  # each byte is a character
    start, in_vain = _next_beginning(text, 0), 0
    while start is not None and in_vain <= _MOST_READ_IN_VAIN * len(text):
        document, end = _decoded(readable, start)
        if document is None and may_go_on and end + _LONGEST_ESCAPE > len(text):
            return
        is_part = _PART.match(text, start) and as_request(document) is document
        if document is None or is_part:
            in_vain += end - start + end // _COUNTED_PER_READ
            start = _beginning(text, start + 1 if document is None else end)
        else:
            yield start, end
            start = _next_beginning(text, end)


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """Return the object that begins at an offset and its end; or None and where it is broken."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        is_to_the_end = error.msg.startswith("Unterminated string")
        return None, len(text) if is_to_the_end else error.pos
    except RecursionError:
        return None, len(text)


def _next_beginning(text: bytes, end: int) -> int | None:
    """Return where the next document begins after the end of one."""
    start = _after_separators(text, end)
    return start if text[start : start + 1] == b"{" else _beginning(text, start)


def _after_separators(text: bytes, start: int) -> int:
    found = _BETWEEN.match(text, start)
    return found.end() if found else start


def _beginning(text: bytes, start: int) -> int | None:
    found = _BEGINNING.search(text, start)
    return found.end() if found else None


_NANOSECONDS = 10**9


def as_request(document: Any) -> dict[str, Any]:
    """Return a record of the SDK as an OTLP request; any other object as it is.

    A span or metrics count as metrics without content. What is no object becomes one broken record.
    """
    if not isinstance(document, dict):
        return {"resourceLogs": [document]}
    if "hrTime" in document:
        return {"resourceLogs": [_resource_logs(document)]}
    is_span = "startTime" in document and {"spanContext", "_spanContext", "kind"} & document.keys()
    return {"resourceMetrics": []} if is_span or "scopeMetrics" in document else document


def time_of(document: Any) -> str | None:
    """Return the time of a log record of the SDK, as a text; None for anything else."""
    return str(document["hrTime"]) if isinstance(document, dict) and "hrTime" in document else None


def _resource_logs(record: dict[str, Any]) -> dict[str, Any]:
    resource, scope = _either(record, "resource"), _either(record, "instrumentationScope")
    fields = {
        "timeUnixNano": _nanoseconds(record["hrTime"]),
        "observedTimeUnixNano": _nanoseconds(record.get("hrTimeObserved")),
        "eventName": _either(record, "eventName"),
        "body": _value(_either(record, "body")),
        "attributes": _pairs(_either(record, "attributes")),
    }
    return {
        "resource": {"attributes": _pairs(_resource_attributes(resource))},
        "scopeLogs": [
            {
                "scope": {"name": scope.get("name")} if isinstance(scope, dict) else None,
                "logRecords": [fields],
            }
        ],
    }


def _either(parent: dict[str, Any], name: str) -> Any:
    """Return a field under its public or private name."""
    return parent.get(name, parent.get(f"_{name}"))


def _resource_attributes(resource: Any) -> Any:
    """Return the attributes of a resource; in a list of pairs the first of a name counts."""
    if not isinstance(resource, dict):
        return None
    pairs = resource.get("_rawAttributes")
    if not isinstance(pairs, list):
        return _either(resource, "attributes")
    named = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    return {str(name): value for name, value in reversed(named)}


def _nanoseconds(time: Any) -> Any:
    """Return ``[seconds, nanoseconds]`` as one number; what is none stays, and is counted."""
    is_pair = isinstance(time, list) and len(time) == 2 and all(type(n) is int for n in time)
    return str(time[0] * _NANOSECONDS + time[1]) if is_pair else time


def _pairs(attributes: Any) -> Any:
    if not isinstance(attributes, dict):
        return attributes
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    """Return a value as an AnyValue."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": value}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": value}
