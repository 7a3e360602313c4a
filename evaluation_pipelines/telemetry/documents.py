"""Complete lines of a landing file in any of the supported encodings.

Supported are plain lines, pretty-printed documents, gzip, zstd, and the collector's messages: each
request after its length (4 bytes, big-endian), as protobuf, compressed by zstd, or both.
"""

import errno
import re
import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from io import UnsupportedOperation
from itertools import chain, islice
from typing import BinaryIO, cast

from evaluation_pipelines.storage.raw_lines import KEPT_BYTES, RawLine, read_at, read_lines, size_of
from evaluation_pipelines.telemetry.decompression import DecompressedFile
from evaluation_pipelines.telemetry.domain.joined import documents_end
from evaluation_pipelines.telemetry.domain.lenient_json import (
    UTF_16,
    JsonState,
    is_utf_16,
    json_state,
)
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request, request_json

_GZIP = b"\x1f\x8b"
_MOST_BLANK_LINES = 1_000  # before a document; more are lines
_PEEKED_BYTES = 64 * 1024

CUT_OFF = "cut off: the file ends within a line or request, and no longer grows"


class FileFormat(Enum):
    """Encoding of a file."""

    PLAIN = auto()
    GZIP = auto()
    ZSTD = auto()
    MESSAGES = auto()

    @property
    def is_stream(self) -> bool:
        """True if offsets count decompressed bytes and do not relate to the size on disk."""
        return self in (FileFormat.GZIP, FileFormat.ZSTD)


class _Content(Enum):
    """What a file has: lines, or documents that may take several; its first lines decide.

    Of a file in UTF-16 the first line is a defect, and the others are passed over.
    """

    UNKNOWN = auto()
    LINES = auto()
    DOCUMENTS = auto()
    UTF_16 = auto()


@dataclass(slots=True)
class Documents:
    """Complete lines of a file from an offset on.

    Args:
        handle: The open file, or a stream that cannot seek.
        max_line_bytes: Only the beginning of a longer line is returned.
        max_ratio: Maximum decompressed size as a multiple of the size on disk.
        is_final: True if the file no longer grows: what is incomplete at its end is a line
            with a defect.

    Attributes:
        form: Encoding, detected from the first bytes.
        unfinished: After reading: what is missing at the end of a compressed file.
        cut_bytes: After reading: length of a last line that is not complete, in any other file.
    """

    handle: BinaryIO
    max_line_bytes: int
    max_ratio: int
    is_final: bool = False
    form: FileFormat = FileFormat.PLAIN
    unfinished: str | None = None
    cut_bytes: int = 0

    def __post_init__(self) -> None:
        self.form = file_format(self.handle)

    @property
    def is_lines(self) -> bool:
        """True if reading can start at any line: neither compressed, documents, nor a pipe."""
        if self.form is not FileFormat.PLAIN or not self.handle.seekable():
            return False
        return self._content() is not _Content.DOCUMENTS

    def read(self, offset: int, end: int | None = None) -> Iterator[RawLine]:
        """Yield the lines from ``offset`` on, as if the file ended at ``end`` for good.

        In a file that begins with a pretty-printed document, each document is one line.

        Of a last line without newline its complete JSON documents are included: a rotation can
        leave a file like that, some programs write no newlines at all, and no proper prefix of a
        JSON object is one itself.

        Where data cannot be decompressed or exceed ``max_ratio``, the last line has a defect.
        """
        if self.form.is_stream:
            yield from self._decompressed(offset, end)
            return
        if self.form is FileFormat.MESSAGES:
            found = self._messages(offset, end)
        else:
            lines = read_lines(self.handle, offset, self.max_line_bytes, end)
            found = self._complete(lines, offset)
        position = offset
        for line in found:
            yield line
            position = line.next_offset
        if end is None and self.is_final:
            end = size_of(self.handle)
        if end is not None and position < end:
            yield from self._cut_end(position, end)

    def _cut_end(self, position: int, end: int) -> Iterator[RawLine]:
        """Yield what is left at the end of a file that no longer grows."""
        self.handle.seek(position)
        text = self.handle.read(min(end - position, KEPT_BYTES))
        if text.strip():
            self.cut_bytes, self.unfinished = 0, None
            yield RawLine(position, text, end - position, end, CUT_OFF)

    def _decompressed(self, offset: int, until: int | None) -> Iterator[RawLine]:
        stream = self._stream()
        lines = read_lines(cast(BinaryIO, stream), offset, self.max_line_bytes, until)
        seen = _Remembering(lines)
        end = offset
        for line in self._complete(seen, offset):
            yield line
            end = line.next_offset
        is_within_line = seen.last is not None and end < seen.last.next_offset
        is_final = self.is_final if until is None else end < until
        if is_final and (stream.ends_early or is_within_line):
            yield RawLine(end, b"", 0, end + 1, CUT_OFF)
        elif stream.ends_early:
            self.unfinished = "its end is missing. The lines before it are read"
        elif stream.flaw is not None:
            yield RawLine(end, b"", 0, end + 1, stream.flaw)
        elif is_within_line:
            self.unfinished = "it ends within a line. The lines before it are read"

    def _stream(self) -> DecompressedFile:
        return DecompressedFile(self.handle, self.form.name.lower(), self.max_ratio)

    def _complete(self, lines: Iterator[RawLine], offset: int) -> Iterator[RawLine]:
        """Yield complete lines, or documents."""
        beginning = _up_to_text(lines) if offset == 0 else []
        content = self._content() if offset else _content_of(beginning)
        following = chain(beginning, lines)
        if content is _Content.DOCUMENTS:
            yield from documents_of(separated(following), self.max_line_bytes)
        elif content is not _Content.UNKNOWN:
            lines = following if content is _Content.LINES else map(_without_utf_16, following)
            for line in lines:
                if line.is_terminated or line.defect is not None:
                    yield line
                    continue
                if end := _documents_end(line):
                    yield RawLine(line.offset, line.text[:end], end, line.offset + end)
                self.cut_bytes = line.length_bytes - end

    def _content(self) -> _Content:
        """Return what the file has, by its beginning; the position of ``handle`` stays."""
        position = self.handle.tell()
        source = cast(BinaryIO, self._stream()) if self.form.is_stream else self.handle
        self.handle.seek(0)
        limit = self.max_line_bytes
        content = _content_of(_up_to_text(read_lines(source, 0, limit, chunk_bytes=_PEEKED_BYTES)))
        self.handle.seek(position)
        return content

    def _messages(self, offset: int, end: int | None) -> Iterator[RawLine]:
        """Yield length-prefixed requests; offsets are those of the file itself."""
        self.handle.seek(offset)
        while (end is None or offset < end) and len(prefix := self.handle.read(4)) == 4:
            (size,) = struct.unpack(">I", prefix)
            following = offset + 4 + size
            if size > self.max_line_bytes:
                if following > size_of(self.handle):
                    self.unfinished = f"a message of {size} bytes at {offset} is not complete"
                    return
                self.handle.seek(following)
                yield RawLine(offset, b"", size, following, f"a message of {size} bytes")
            else:
                packed = self.handle.read(size)
                if len(packed) < size:  # its end is not yet written
                    return
                yield _message(packed, offset, following, self.max_line_bytes)
            offset = following


def _message(packed: bytes, offset: int, following: int, limit: int) -> RawLine:
    try:
        text = message_text(packed, limit)
    except ValueError as error:
        return RawLine(offset, b"", len(packed), following, str(error))
    kept = text if len(text) <= limit else text[:KEPT_BYTES]
    return RawLine(offset, kept, len(text), following)


def file_format(handle: BinaryIO) -> FileFormat:
    """Detect the encoding from the first bytes; a stream that cannot seek is plain."""
    try:
        head = read_at(handle, 8, 0)
    except OSError as error:
        if error.errno != errno.ESPIPE and not isinstance(error, UnsupportedOperation):
            raise
        return FileFormat.PLAIN
    if head.startswith(_GZIP):
        return FileFormat.GZIP
    if head.startswith(ZSTD):
        return FileFormat.ZSTD
    return FileFormat.MESSAGES if is_message(head) else FileFormat.PLAIN


class _Remembering(Iterator[RawLine]):
    """Lines, and the last one of them so far."""

    def __init__(self, lines: Iterator[RawLine]) -> None:
        self.last: RawLine | None = None
        self._lines = lines

    def __next__(self) -> RawLine:
        self.last = next(self._lines)
        return self.last


def _up_to_text(lines: Iterator[RawLine]) -> list[RawLine]:
    """Take blank lines and the line after them; a file exporter can begin a file with a newline."""
    taken = list[RawLine]()
    for line in islice(lines, _MOST_BLANK_LINES):
        taken.append(line)
        if line.text.strip():
            break
    return taken


def _content_of(beginning: list[RawLine]) -> _Content:
    """Return what a file has that begins with these lines, of which the last has text."""
    if beginning and is_utf_16(beginning[0].text):
        return _Content.UTF_16
    if len(beginning) == _MOST_BLANK_LINES:
        return _Content.LINES
    if not beginning or not beginning[-1].text.strip():
        return _Content.UNKNOWN
    first = beginning[-1]
    if first.is_terminated and not first.is_overlong:
        begins = json_state(first.text + b"\n") is JsonState.TRUNCATED
        return _Content.DOCUMENTS if begins else _Content.LINES
    return _Content.LINES if first.is_overlong or _documents_end(first) else _Content.UNKNOWN


def _without_utf_16(line: RawLine) -> RawLine:
    """Return a line of a file that began in UTF-16; another program may append to it in UTF-8."""
    if line.offset == 0:
        return replace(line, defect=UTF_16)
    is_utf_16 = b"\0" in line.text
    return RawLine(line.offset, b"", 0, line.next_offset) if is_utf_16 else line


def _documents_end(line: RawLine) -> int:
    return 0 if line.is_overlong else documents_end(line.text)


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


ZSTD = b"\x28\xb5\x2f\xfd"


def is_message(head: bytes) -> bool:
    """Return True if a file with these first eight bytes consists of messages."""
    # Protobuf has no mark of its own; no text begins with the length of less than 16 MiB.
    return head[4:8] == ZSTD or (head[:1] == b"\0" and looks_like_request(head[4:]))


def message_text(packed: bytes, limit: int) -> bytes:
    """Return the JSON of a message, at most ``limit + 1`` bytes of it if it is compressed.

    Raises:
        ValueError: it cannot be decompressed, or is not an OTLP request.
    """
    content = _decompressed(packed, limit) if packed.startswith(ZSTD) else packed
    if len(content) <= limit and looks_like_request(content):
        return request_json(content)
    return content


def _decompressed(packed: bytes, limit: int) -> bytes:
    import pyarrow as pa  # slow to import, and rarely needed

    try:
        stream = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
        content: bytes = stream.read(limit + 1)
    except OSError as error:
        raise ValueError(f"cannot be decompressed: {error}") from None
    return content
