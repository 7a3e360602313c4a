"""Complete lines of a landing file in any of the supported encodings.

Supported are plain lines, a pretty-printed document, gzip, zstd, and the collector's form of zstd,
in which each request is compressed separately after its length (4 bytes, big-endian).
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, islice
from typing import BinaryIO, cast

from evaluation_pipelines.storage.landing import KEPT_BYTES, RawLine, read_lines
from evaluation_pipelines.telemetry.decompression import DecompressedFile
from evaluation_pipelines.telemetry.domain.otlp import is_complete_json, is_truncated_json
from evaluation_pipelines.telemetry.domain.reader import first_bytes

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MOST_BLANK_LINES = 1_000  # before a document; more are lines


class FileFormat(Enum):
    """Encoding of a file."""

    PLAIN = auto()
    GZIP = auto()
    ZSTD = auto()
    ZSTD_MESSAGES = auto()

    @property
    def is_stream(self) -> bool:
        """True if offsets count decompressed bytes and do not relate to the size on disk."""
        return self in (FileFormat.GZIP, FileFormat.ZSTD)


@dataclass(slots=True)
class Documents:
    """Complete lines of a file from an offset on.

    Args:
        handle: The open file, or a stream that cannot seek.
        path: Its name; a ``.json`` file that begins with a part of a document is one document.
        max_line_bytes: Only the beginning of a longer line is returned.
        max_ratio: Maximum decompressed size as a multiple of the size on disk.

    Attributes:
        form: Encoding, detected from the first bytes.
        ends_early: After reading: True if the compressed stream is incomplete.
    """

    handle: BinaryIO
    path: str
    max_line_bytes: int
    max_ratio: int
    form: FileFormat = FileFormat.PLAIN
    ends_early: bool = False

    def __post_init__(self) -> None:
        self.form = file_format(self.handle)

    @property
    def is_lines(self) -> bool:
        """True if reading can start at any line: neither compressed, a document, nor a pipe."""
        if self.form is not FileFormat.PLAIN or not self.handle.seekable():
            return False
        position = self.handle.tell()
        beginning = _up_to_text(read_lines(self.handle, 0, self.max_line_bytes))
        self.handle.seek(position)
        return not _begins_document(beginning)

    def read(self, offset: int) -> Iterator[RawLine]:
        """Yield the lines from ``offset`` on, or the one pretty-printed document of a file.

        A last line without newline is included if it is a complete JSON document: a rotation can
        leave a file like that, and no proper prefix of a JSON object is one itself.

        Where data cannot be decompressed, exceed ``max_ratio`` or end within a line, the last line
        has a defect. It takes no bytes (``next_offset``) if the rest may still be written.
        """
        if self.form is FileFormat.ZSTD_MESSAGES:
            yield from self._messages(offset)
        elif self.form.is_stream:
            yield from self._decompressed(offset)
        else:
            yield from self._documents(read_lines(self.handle, offset, self.max_line_bytes), offset)

    def _decompressed(self, offset: int) -> Iterator[RawLine]:
        stream = DecompressedFile(self.handle, self.form.name.lower(), self.max_ratio)
        lines = _Remembering(read_lines(cast(BinaryIO, stream), offset, self.max_line_bytes))
        end = offset
        for line in self._documents(lines, offset):
            yield line
            end = line.next_offset
        self.ends_early = stream.ends_early
        last = lines.last or RawLine(end, b"", 0, end)
        if stream.flaw is not None:
            yield RawLine(end, b"", 0, end if stream.ends_early else end + 1, stream.flaw)
        elif end < last.next_offset:
            length = last.next_offset - end
            what = "the file ends within a line"
            yield RawLine(end, last.text[:KEPT_BYTES], length, last.next_offset, what)

    def _documents(self, lines: Iterator[RawLine], offset: int) -> Iterator[RawLine]:
        """Yield complete lines, or one document that takes several."""
        beginning = _up_to_text(lines) if offset == 0 else []
        following = chain(beginning, lines)
        if _begins_document(beginning):
            yield from self._document(following)
        else:
            yield from _complete(following)

    def _document(self, lines: Iterator[RawLine]) -> Iterator[RawLine]:
        """Yield the document that the lines are; if they are none, the lines.

        A ``.json`` file is one document, even if that cannot be read.
        """
        is_json_file = self.path.removesuffix(".gz").removesuffix(".zst").endswith(".json")
        text, read = bytearray(), list[RawLine]()
        for line in lines:
            read.append(line)
            newlines = line.next_offset - line.offset - line.length_bytes
            text += line.text + b"\n" * newlines
            is_too_long = line.is_overlong or len(text) > self.max_line_bytes
            # Checked at lines 2, 4, 8 ...: each check reads the whole text.
            is_power_of_2 = len(read) & (len(read) - 1) == 0
            if is_too_long or (not is_json_file and is_power_of_2 and not _may_be_json(text)):
                break
        else:
            is_complete = is_complete_json(bytes(text))
            if is_complete or (is_json_file and not is_truncated_json(bytes(text))):
                start = read[0].offset
                yield RawLine(start, bytes(text), len(text), start + len(text))
                return
            if is_json_file or is_truncated_json(bytes(text)):
                return  # its end is not yet written
        if is_json_file:
            end = max((each.next_offset for each in lines), default=read[-1].next_offset)
            beginning = bytes(text[:KEPT_BYTES])
            yield RawLine(read[0].offset, beginning, end - read[0].offset, end)
        else:
            yield from _complete(chain(read, lines))

    def _messages(self, offset: int) -> Iterator[RawLine]:
        """Yield length-prefixed requests; offsets are those of the file itself."""
        self.handle.seek(offset)
        while len(prefix := self.handle.read(4)) == 4:
            (size,) = struct.unpack(">I", prefix)
            following = offset + 4 + size
            if size > self.max_line_bytes:
                self.handle.seek(following)
                yield RawLine(offset, b"", size, following, f"a message of {size} bytes")
            else:
                packed = self.handle.read(size)
                if len(packed) < size:  # its end is not yet written
                    return
                yield self._message(packed, offset, following)
            offset = following

    def _message(self, packed: bytes, offset: int, following: int) -> RawLine:
        import pyarrow as pa  # slow to import, and rarely needed

        limit = self.max_line_bytes
        try:
            text: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(limit + 1)
        except OSError as error:
            return RawLine(offset, b"", len(packed), following, f"cannot be decompressed: {error}")
        kept = text if len(text) <= limit else text[:KEPT_BYTES]
        return RawLine(offset, kept, len(text), following)


def file_format(handle: BinaryIO) -> FileFormat:
    """Detect the encoding from the first bytes; a stream that cannot seek is plain."""
    try:
        head = os.pread(handle.fileno(), 8, 0)
    except OSError:
        return FileFormat.PLAIN
    if head.startswith(_GZIP):
        return FileFormat.GZIP
    if head.startswith(_ZSTD):
        return FileFormat.ZSTD
    return FileFormat.ZSTD_MESSAGES if head[4:] == _ZSTD else FileFormat.PLAIN


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


def _begins_document(beginning: list[RawLine]) -> bool:
    """Return True if the last of these lines is the beginning of a longer JSON document.

    True for blank lines alone, too: what follows them is not yet written.
    """
    return 0 < len(beginning) < _MOST_BLANK_LINES and is_truncated_json(beginning[-1].text + b"\n")


def _complete(lines: Iterable[RawLine]) -> Iterator[RawLine]:
    for line in lines:
        if line.is_terminated or (not line.is_overlong and is_complete_json(line.text)):
            yield line


def _may_be_json(text: bytearray) -> bool:
    return is_truncated_json(bytes(text)) or is_complete_json(bytes(text))


@dataclass(frozen=True, slots=True)
class LinePosition:
    """Offset, length and first bytes of a line; the first bytes may be empty."""

    offset: int
    length_bytes: int
    first_bytes: str


def reread_lines(
    documents: Documents, positions: Sequence[LinePosition]
) -> Iterator[RawLine | None]:
    """Yield the line at each position; ``positions`` must be sorted by offset.

    Yields None where the content of the file has changed. A compressed stream is read once.
    """
    if documents.form.is_stream:
        found = _stream_lines(documents, positions)
    elif documents.form is FileFormat.ZSTD_MESSAGES:
        found = (next(documents.read(position.offset), None) for position in positions)
    else:
        found = (_plain_line(documents, position) for position in positions)
    for position, line in zip(positions, found, strict=True):
        yield line if line is not None and _is_unchanged(line, position, documents.form) else None


def _plain_line(documents: Documents, position: LinePosition) -> RawLine | None:
    length, limit = position.length_bytes, documents.max_line_bytes
    size = length if length <= limit else KEPT_BYTES
    text = os.pread(documents.handle.fileno(), size, position.offset)
    return RawLine(position.offset, text, length, position.offset + length)


def _stream_lines(
    documents: Documents, positions: Sequence[LinePosition]
) -> Iterator[RawLine | None]:
    lines = documents.read(positions[0].offset)
    line = next(lines, None)
    for position in positions:
        while line is not None and line.offset < position.offset:
            line = next(lines, None)
        yield line


def _is_unchanged(line: RawLine, position: LinePosition, form: FileFormat) -> bool:
    if line.offset != position.offset:
        return False
    if line.defect is not None or not position.first_bytes:
        return True
    if first_bytes(line.text) != position.first_bytes:
        return False
    # A message that is too long is not decompressed to its end, so its length is unknown.
    return line.length_bytes == position.length_bytes or form is FileFormat.ZSTD_MESSAGES
