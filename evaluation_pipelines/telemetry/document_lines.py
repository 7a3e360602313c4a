"""JSON documents of one or several lines, as pretty-printers write them."""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

from evaluation_pipelines.storage.raw_lines import KEPT_BYTES, RawLine
from evaluation_pipelines.telemetry.domain.json_state import JsonState, json_state

_JOINT = re.compile(rb"[}\]]\s*(?=[{\[])")
"""The end of a document and the beginning of the next; in one, lines with both are indented."""


def documents_of(lines: Iterator[RawLine], max_bytes: int) -> Iterator[RawLine]:
    """Yield each document that the lines hold, as one line; nothing of one that still grows.

    Where a document ends does not depend on what follows it, so that a file gives the same
    documents in however many pieces it is read. One that is broken, or longer than ``max_bytes``,
    reaches to the next line that begins with a bracket: pretty-printers indent all others.
    """
    rest = _Lines(lines)
    while document := _next_document(rest, max_bytes):
        yield document


def separated(lines: Iterator[RawLine]) -> Iterator[RawLine]:
    """Yield lines of pretty-printed documents; where one follows another, they are separated."""
    for line in lines:
        joint = None if line.is_overlong else _JOINT.match(line.text)
        if joint is None:
            yield line
        else:
            end = line.offset + joint.end()
            yield RawLine(line.offset, joint.group(), joint.end(), end)
            rest = line.text[joint.end() :]
            yield RawLine(end, rest, len(rest), line.next_offset)


class _Lines(Iterator[RawLine]):
    """Lines, of which some can be put back."""

    def __init__(self, lines: Iterator[RawLine]) -> None:
        self._lines = lines
        self._returned: deque[RawLine] = deque()

    def __next__(self) -> RawLine:
        return self._returned.popleft() if self._returned else next(self._lines)

    def put_back(self, lines: Sequence[RawLine]) -> None:
        self._returned.extendleft(reversed(lines))


def _next_document(lines: _Lines, max_bytes: int) -> RawLine | None:
    read, size = list[RawLine](), 0
    for line in lines:
        if not read and line.is_terminated and not line.text.strip():
            return line  # a blank one
        read.append(line)
        size += line.next_offset - line.offset
        if line.is_overlong or size > max_bytes:
            return _up_to_bracket(read, lines, max_bytes)
        # Checked at lines 1, 2, 4, 8 ...: each check reads the whole text.
        is_power_of_2 = len(read) & (len(read) - 1) == 0
        if is_power_of_2 and line.is_terminated and _state(read) is not JsonState.TRUNCATED:
            break
    if not read:
        return None
    return _first_of(read, lines, max_bytes)


def _first_of(read: list[RawLine], lines: _Lines, max_bytes: int) -> RawLine | None:
    """Return the document that the first of these lines are; put the others back."""
    whole = read if read[-1].is_terminated else read[:-1]
    number = 1 + bisect_left(
        range(1, len(whole) + 1), 1, key=lambda n: _state(whole[:n]) is not JsonState.TRUNCATED
    )
    if number > len(whole):  # all of them are the beginning of one
        # The newline after the last document of a file may be missing.
        return _joined(read) if _state(read) is JsonState.COMPLETE else None
    if _state(whole[:number]) is JsonState.COMPLETE:
        lines.put_back(read[number:])
        return _joined(read[:number])
    return _up_to_bracket(read, lines, max_bytes)


def _up_to_bracket(read: list[RawLine], lines: _Lines, max_bytes: int) -> RawLine:
    """Return what is broken or too long: up to the next line that may begin a document."""
    for place, line in enumerate(read[1:], 1):
        if _begins_with_bracket(line):
            lines.put_back(read[place:])
            return _limited(_joined(read[:place]), max_bytes)
    text = bytearray(_joined(read).text)
    start, end = read[0].offset, read[-1].next_offset
    for line in lines:
        if _begins_with_bracket(line):
            lines.put_back([line])
            break
        end = line.next_offset
        if len(text) <= max_bytes:
            text += _with_newlines(line)
    return _limited(RawLine(start, bytes(text), end - start, end), max_bytes)


def _limited(document: RawLine, max_bytes: int) -> RawLine:
    if document.length_bytes <= max_bytes and not document.is_overlong:
        return document
    kept = document.text[:KEPT_BYTES]
    return RawLine(document.offset, kept, document.length_bytes, document.next_offset)


def _begins_with_bracket(line: RawLine) -> bool:
    return line.text[:1] in (b"{", b"[")


def _joined(lines: Sequence[RawLine]) -> RawLine:
    start, end = lines[0].offset, lines[-1].next_offset
    return RawLine(start, b"".join(map(_with_newlines, lines)), end - start, end)


def _with_newlines(line: RawLine) -> bytes:
    return line.text + b"\n" * (line.next_offset - line.offset - line.length_bytes)


def _state(lines: Sequence[RawLine]) -> JsonState:
    return json_state(_joined(lines).text)
