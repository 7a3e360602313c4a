"""Requests that follow each other without a newline, next to what a crash or rotation left."""

import json
import re
from collections.abc import Iterator
from typing import Any

from evaluation_pipelines.telemetry.domain.json_state import JsonState, json_state
from evaluation_pipelines.telemetry.domain.sdk_records import as_request

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


def end_of_documents(text: bytes) -> int:
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
