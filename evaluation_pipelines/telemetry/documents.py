"""Complete lines of a landing file in any of the supported encodings.

Supported are plain lines, a pretty-printed document, gzip, zstd, and the collector's form of zstd,
in which each request is compressed separately after its length (4 bytes, big-endian).
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import BinaryIO, cast

from evaluation_pipelines.storage.landing import KEPT_BYTES, RawLine, read_lines
from evaluation_pipelines.telemetry.domain.otlp import is_complete_json, is_truncated_json
from evaluation_pipelines.telemetry.domain.reader import first_bytes

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SMALL_BYTES = 64 * 1024 * 1024
"""Decompressed size up to which the compression ratio is not checked."""


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


class DamagedFileError(Exception):
    """A file cannot be decompressed from some offset on."""


@dataclass(slots=True)
class Documents:
    """Complete lines of a file from an offset on.

    Args:
        handle: The open file, or a stream that cannot seek.
        path: Its name; ``.json`` files may hold one pretty-printed document.
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
        """True if reading can start at any line: neither compressed nor a pipe.

        A ``.json`` file may be one document.
        """
        is_plain = self.form is FileFormat.PLAIN and not self.path.endswith(".json")
        return is_plain and self.handle.seekable()

    def read(self, offset: int) -> Iterator[RawLine]:
        """Yield the lines from ``offset`` on.

        A last line without newline is included if it is a complete JSON document: a rotation can
        leave a file like that, and no proper prefix of a JSON object is one itself.

        Data that cannot be decompressed, or exceeds ``max_ratio``, is a line with a defect and no
        text.
        """
        if self.form is FileFormat.ZSTD_MESSAGES:
            yield from self._messages(offset)
        elif self.form.is_stream:
            yield from self._decompressed(offset)
        else:
            yield from self._lines(self.handle, offset)

    def _lines(self, stream: BinaryIO, offset: int) -> Iterator[RawLine]:
        for line in read_lines(stream, offset, self.max_line_bytes):
            if line.offset == 0 and self.path.endswith(".json") and is_truncated_json(line.text):
                yield from self._whole_document()
                return
            if line.is_terminated or (not line.is_overlong and is_complete_json(line.text)):
                yield line

    def _decompressed(self, offset: int) -> Iterator[RawLine]:
        stream = _Decompressed(self.handle, self.form, self.max_ratio)
        try:
            for line in self._lines(cast(BinaryIO, stream), offset):
                yield line
                offset = line.next_offset
        except DamagedFileError as error:
            yield RawLine(offset, b"", 0, offset + 1, str(error))
        self.ends_early = stream.ends_early

    def _whole_document(self) -> Iterator[RawLine]:
        self.handle.seek(0)
        limit = self.max_line_bytes
        text = self.handle.read(limit + 1)
        if len(text) > limit:
            length = self.handle.seek(0, os.SEEK_END)
            yield RawLine(0, text[:KEPT_BYTES], length, length)
        elif not is_truncated_json(text):  # otherwise its end is not yet written
            yield RawLine(0, text, len(text), len(text))

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


class _Decompressed:
    """Forward-only reader of a decompressed stream."""

    def __init__(self, handle: BinaryIO, form: FileFormat, max_ratio: int) -> None:
        import pyarrow as pa

        handle.seek(0)
        # A separate handle: the stream closes it.
        handle_copy = os.fdopen(os.dup(handle.fileno()), "rb")
        self._stream = pa.CompressedInputStream(pa.PythonFile(handle_copy), form.name.lower())
        size_bytes = os.fstat(handle.fileno()).st_size
        self._allowed = max(size_bytes * max_ratio, _SMALL_BYTES)
        self._size_bytes = size_bytes
        self._read = 0
        self.ends_early = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; empty at the end, and where the stream is truncated."""
        if self.ends_early:
            return b""
        try:
            chunk: bytes = self._stream.read(size)
        except OSError as error:
            if "Truncated" in str(error):
                self.ends_early = True
                return b""
            raise DamagedFileError(f"cannot be decompressed: {error}") from error
        self._read += len(chunk)
        if self._read > self._allowed:
            raise DamagedFileError(
                f"decompresses to more than {self._allowed} bytes from {self._size_bytes}; "
                "raise EVAL_MAX_DECOMPRESSION_RATIO to read it"
            )
        return chunk

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Skip forward to an offset."""
        while whence == os.SEEK_SET and self._read < offset:
            if not self.read(min(offset - self._read, _SMALL_BYTES)):
                break
        return self._read


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
