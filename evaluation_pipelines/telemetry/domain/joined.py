"""Requests that follow each other without a newline, or after one that was cut off."""

import re

from evaluation_pipelines.telemetry.domain.json_state import JsonState, json_state

# In valid JSON neither occurs within a document: a quotation mark in a text is escaped.
_BEGINNING = re.compile(rb'(?<=\})\s*(?=\{\s*"\w)|(?=\{\s*"resource(?:Logs|Metrics|Spans)"\s*:)')
_SEPARATORS = b" \t\r\n,[]"


def pieces_of(text: bytes) -> list[tuple[int, bytes]]:
    """Return the parts of a text, which is no JSON, that begin as documents do, with their offsets.

    Each is a whole document, or broken by itself. Brackets and commas of an array are left out.
    """
    starts = [0, *(found.end() for found in _BEGINNING.finditer(text) if found.end() > 0)]
    ends = [*starts[1:], len(text)]
    found = [
        (start, text[start:end].rstrip(_SEPARATORS))
        for start, end in zip(starts, ends, strict=True)
    ]
    return [(start, piece) for start, piece in found if piece]


def end_of_documents(text: bytes) -> int:
    """Return where the last whole document ends in a text that may go on; 0 without any."""
    if json_state(text) is JsonState.COMPLETE:
        return len(text)
    pieces = [] if text.lstrip().startswith(b"[") else pieces_of(text)
    if len(pieces) < 2:
        return 0
    start, last = pieces[-1]
    return len(text) if json_state(last) is JsonState.COMPLETE else start
